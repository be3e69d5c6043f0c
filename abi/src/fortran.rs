//! Names that flang gives to the linker: `_Q`, and then each scope, from the outermost on, and what it names in there, behind capital
//! letters that tell what it is. Names of Fortran have none.

/// The name as one says it, `grid::sweep::total`; `None` if it is none of flang's, or of something that it made up itself.
#[must_use]
pub fn demangle(name: &str) -> Option<String> {
    // `M` and `S`: module and submodule; `F`: the procedure or program around it; `B` and a number: a block. `P`: procedure; `E` and
    // `EC`: variable and constant; `N`: namelist.
    const KINDS: [&str; 8] = ["M", "S", "F", "B", "P", "E", "EC", "N"];
    let mut rest = name.strip_prefix("_Q")?;
    let mut scopes = Vec::new();
    while !rest.is_empty() {
        let begin = rest.find(|letter: char| !letter.is_ascii_uppercase()).unwrap_or(rest.len());
        let (kind, behind) = rest.split_at(begin);
        let end = behind.find(|letter: char| letter.is_ascii_uppercase()).unwrap_or(behind.len());
        let (scope, next) = behind.split_at(end);
        // Of a main program there may be two letters in a row: it has no name there.
        let kind = kind.strip_prefix('F').filter(|kind| !kind.is_empty()).unwrap_or(kind);
        if !KINDS.contains(&kind) {
            return None;
        }
        if kind != "B" && !scope.is_empty() {
            scopes.push(scope);
        }
        rest = next;
    }
    (!scopes.is_empty()).then(|| scopes.join("::"))
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn names_are_as_in_the_source() {
        for (mangled, expected) in [
            ("_QMgridEu", Some("grid::u")),
            ("_QMgridPsweep", Some("grid::sweep")),
            ("_QMgridPsweep..omp_par", Some("grid::sweep..omp_par")),
            ("_QMgridFsweepPinner_2", Some("grid::sweep::inner_2")),
            ("_QMgridSsideFsweepB1Ex", Some("grid::side::sweep::x")),
            ("_QMgridECn", Some("grid::n")),
            ("_QFEc", Some("c")),
            ("_QFPstep", Some("step")),
            ("_QPouter", Some("outer")),
            ("_QQmain", None),
            ("_QMgridTfield", None),
            ("_QQclX6162", None),
            ("_Q", None),
            ("main", None),
        ] {
            assert_eq!(demangle(mangled).as_deref(), expected, "{mangled}");
        }
    }
}
