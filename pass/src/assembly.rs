//! What inline assembly says of the memory it uses: its template and its constraints in, one use for each argument out.
//!
//! Only operands in memory are known. What assembly does through pointers in registers is between it and the processor.

use core::ffi::CStr;

/// What becomes of an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    /// The memory it points to is read.
    pub(crate) reads: bool,
    /// The memory it points to is written.
    pub(crate) writes: bool,
    /// Instructions name it; others only say which memory they depend on.
    is_named: bool,
}

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assembly {
    /// Of each argument.
    pub(crate) uses: Vec<Use>,
    /// Whether it reads and writes an operand in one step.
    pub(crate) is_atomic: bool,
    /// Whether it clobbers memory.
    clobbers: bool,
    /// Whether it has instructions, and others than those that only put accesses in order or take time.
    has_instructions: bool,
    is_barrier: bool,
}

/// The name of an instruction.
fn first(instruction: &str) -> &str {
    instruction.split_whitespace().next().unwrap_or_default()
}

/// Instructions that use no memory, and are there for the order of what others do.
const BARRIERS: [&str; 14] = [
    "mfence",
    "sfence",
    "lfence",
    "pause",
    "nop",
    "rep",
    "rep nop",
    "serialize",
    "dmb",
    "dsb",
    "isb",
    "yield",
    "wfe",
    "sev",
];

/// The constraint that is missing where instructions change `rbx` and do not say so. Around `cpuid` programs put back 32 bits of it,
/// as if that was all there is, and are lucky as long as the compiler has nothing there.
pub(crate) fn lacks(template: &str, constraints: &str) -> Option<&'static CStr> {
    let mut words = template.split(|each: char| !each.is_ascii_alphanumeric());
    (words.any(|word| matches!(word, "ebx" | "rbx")) && !constraints.contains("bx}")).then_some(c"~{rbx}")
}

impl Assembly {
    /// Of LLVM's template and constraints.
    pub(crate) fn of(template: &str, constraints: &str) -> Self {
        let is_named = |number: usize| {
            let with = |start: &str| {
                let name = format!("{start}{number}");
                template.match_indices(&name).any(|(at, _)| {
                    !template[at + name.len()..].starts_with(|next: char| next.is_ascii_digit())
                        && !template[..at].ends_with('$')
                })
            };
            with("$") || with("${")
        };
        let mut uses = Vec::new();
        let mut clobbers = false;
        for (number, constraint) in constraints.split(',').enumerate() {
            if constraint.starts_with(['~', '!']) {
                clobbers |= constraint == "~{memory}";
                continue;
            }
            let (is_output, constraint) = constraint.strip_prefix('=').map_or((false, constraint), |rest| (true, rest));
            let is_memory = constraint.chars().take_while(|each| "&%#*".contains(*each)).any(|each| each == '*');
            // Outputs in registers are results.
            if is_memory || !is_output {
                let is_named = is_memory && is_named(number);
                uses.push(Use { reads: is_memory && !is_output, writes: is_memory && is_output, is_named });
            }
        }
        let instructions = template.split(['\n', ';']).map(str::trim);
        let instructions: Vec<_> =
            instructions.filter(|each| !each.is_empty() && !each.starts_with(['#', '.', '/'])).collect();
        let has = |names: &[&str]| instructions.iter().any(|each| names.iter().any(|name| each.starts_with(name)));
        let orders =
            |each: &&str| BARRIERS.iter().any(|name| each == name || !name.starts_with("rep") && first(each) == *name);
        // A locked instruction at the top of the stack is the fence of old.
        let is_fence = has(&["lock"]) && template.contains("(%rsp)") && uses.is_empty();
        Self {
            uses,
            is_atomic: has(&["lock", "xchg"]),
            clobbers,
            has_instructions: !instructions.is_empty(),
            is_barrier: is_fence || instructions.iter().all(orders),
        }
    }

    /// Whether it may use memory that no operand says.
    pub(crate) fn is_unseen(&self) -> bool {
        self.clobbers && !self.is_barrier && !self.uses.iter().any(|each| each.is_named)
    }

    /// Whether others may go on with what was done before it.
    pub(crate) fn releases(&self) -> bool {
        self.is_atomic || self.clobbers && self.has_instructions
    }

    /// What becomes of those arguments that instructions name; `is_same` says whether two arguments are the same address.
    /// What is read and written in one step is written.
    pub(crate) fn named(&self, is_same: impl Fn(usize, usize) -> bool) -> Vec<(usize, Use)> {
        let of = |index: usize| {
            let is_same = &is_same;
            (0..self.uses.len()).filter(move |&other| other == index || is_same(index, other))
        };
        let mut named: Vec<(usize, Use)> = Vec::new();
        for index in 0..self.uses.len() {
            let here: Vec<_> = of(index).map(|other| self.uses[other]).collect();
            let is_first = of(index).next() == Some(index);
            if is_first && here.iter().any(|each| each.is_named) {
                let writes = here.iter().any(|each| each.writes);
                let reads = here.iter().any(|each| each.reads) && !(self.is_atomic && writes);
                named.push((index, Use { reads, writes, is_named: true }));
            }
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_that_is_changed_is_said_to_be() {
        let exchange = "xchg %ebx, $1\ncpuid\nxchg %ebx, $1";
        assert_eq!(lacks(exchange, "={ax},=r,={cx},={dx},0,2"), Some(c"~{rbx}"));
        assert_eq!(lacks("mov rbx, $0", ""), Some(c"~{rbx}"));
        for (template, constraints) in [
            (exchange, "={ax},=r,~{ebx}"),
            ("cpuid", "={ax},={bx},={cx},={dx},0"),
            ("movl %ebx, $0", "=r,{bx}"),
            ("nop", ""),
        ] {
            assert_eq!(lacks(template, constraints), None, "{template}");
        }
    }

    #[test]
    fn operands_in_memory_are_known() {
        // Each with what is named, as (argument, read, written); whether more may be used; whether it releases.
        type Case = (&'static str, &'static str, &'static [(usize, bool, bool)], bool, bool);
        let cases: [Case; 13] = [
            ("", "~{memory},~{dirflag}", &[], false, false),
            ("# a mark", "~{memory}", &[], false, false),
            ("pause", "~{memory}", &[], false, true),
            ("rep; nop", "", &[], false, false),
            ("rep movsb", "={di},={si},={cx},0,1,2,~{memory}", &[], true, true),
            ("lock; addl $$0,0(%rsp)", "~{memory}", &[], false, true),
            ("addl $$1, $0", "=*m,*m,~{flags}", &[(0, true, true)], false, false),
            ("lock; addl $$1, $0", "=*m,*m,~{flags}", &[(0, false, true)], false, true),
            ("xaddl $0, $1", "=r,=*m,0,*m,~{memory}", &[(0, true, true)], false, true),
            ("movq $1, $0", "=r,*m", &[(0, true, false)], false, false),
            ("movups ($1), %xmm0", "=*m,r,~{xmm0}", &[], false, false),
            ("movups ($0), %xmm0\n\tmovups %xmm0, ($1)", "r,r,~{memory}", &[], true, true),
            ("mov ${10:q}, $$1", "=r,r,r,r,r,r,r,r,r,r,*m", &[(9, true, false)], false, false),
        ];
        for (template, constraints, expected, unseen, releases) in cases {
            let assembly = Assembly::of(template, constraints);
            let outputs = assembly.uses.iter().position(|each| each.writes);
            // Like clang's, what is written and read is there twice, with the same address.
            let is_same = |one: usize, other: usize| {
                let [one, other] = [one, other].map(|each| assembly.uses[each]);
                outputs.is_some() && (one.writes && other.reads || one.reads && other.writes)
            };
            let named: Vec<_> =
                assembly.named(is_same).into_iter().map(|(index, using)| (index, using.reads, using.writes)).collect();
            assert_eq!(named, expected, "{template}");
            assert_eq!((assembly.is_unseen(), assembly.releases()), (unseen, releases), "{template}");
        }
    }
}
