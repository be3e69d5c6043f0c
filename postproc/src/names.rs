//! Names in tables.

/// Longest name that is shown whole, characters.
const LONG: usize = 72;

/// A name for a table, or several by comma: arguments of templates and functions are left out of long ones.
#[must_use]
pub fn shortened(name: &str) -> String {
    if name.chars().count() <= LONG {
        return name.to_owned();
    }
    let (mut text, mut depth) = (String::new(), 0_u32);
    for (at, c) in name.char_indices() {
        // Not those of `operator<`, `operator->` and the like, nor the place behind a name: `f (file.c:3), g (file.c:5)`.
        let operator = text.trim_end_matches(['<', '>', '-', '=', '(', ')']).ends_with("operator") && depth == 0;
        let is_last = || {
            let behind = name[at..].split_once(')').map_or("?", |(_, behind)| behind);
            behind.is_empty() || behind.starts_with(", ")
        };
        let place = c == '(' && text.ends_with(' ') && is_last();
        match c {
            // The type that a method of Rust's is of: `<T as Trait>::method`.
            '<' if text.is_empty() || depth == 0 && text.ends_with(", ") => text.push(c),
            '<' | '(' if !operator && !place => {
                if depth == 0 {
                    text.extend([c, '…']);
                }
                depth += 1;
            }
            '>' | ')' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    text.push(c);
                }
            }
            _ if depth == 0 => text.push(c),
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_arguments() {
        let tree = "std::_Rb_tree<long, std::pair<long const, std::string>, std::less<long>>::_M_insert(int, char) (tree.h:20)";
        assert_eq!(shortened(tree), "std::_Rb_tree<…>::_M_insert(…) (tree.h:20)");
        assert_eq!(shortened("short<int>::f(int)"), "short<int>::f(int)");
        let long = "char, traits".repeat(4);
        let operator = format!("std::ostream<{long}>& std::operator<< <{long}>(std::ostream<{long}>&, char)");
        assert_eq!(shortened(&operator), "std::ostream<…>& std::operator<< <…>(…)");
        let method = format!("<alloc::vec::Vec<{long}> as core::iter::Extend<{long}>>::extend");
        assert_eq!(shortened(&method), "<alloc::vec::Vec<…> as core::iter::Extend<…>>::extend");
        let sites = "<RawTable<(u64, u64)>>::reserve_rehash::<make_hasher<u64>> (mod.rs:464), r::main (r.rs:11), \
                     <RawVec<u64>>::new_in (mod.rs:7), 2 of them";
        let shown = "<RawTable<…>>::reserve_rehash::<…> (mod.rs:464), r::main (r.rs:11), <RawVec<…>>::new_in (mod.rs:7), 2 of them";
        assert_eq!(shortened(sites), shown);
    }
}
