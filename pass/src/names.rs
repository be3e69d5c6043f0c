//! Which functions a list of names and patterns means.
//!
//! A list is separated by commas outside brackets. Each item is a name in which `*` stands for any characters and `?`
//! for one, or `/REGEX/`. An item matches a function if it matches the whole (a regex: any part) of one of: the linkage
//! name, the demangled name, the demangled name without its parameters. So `f`, `ns::f`, `ns::f(int)`, `_ZN2ns1fEi`,
//! `ns::*` and `/^ns::/` all mean the same C++ function.

use regex_lite::Regex;

use crate::llvm::demangle;

/// A list of patterns.
#[derive(Debug, Default)]
pub(crate) struct Patterns(Vec<Regex>);

impl Patterns {
    /// Adds the items of a list.
    pub(crate) fn add(&mut self, list: &str) -> Result<(), String> {
        for item in items(list) {
            let expression = match item.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')) {
                Some(regex) => regex.to_owned(),
                None => glob(item),
            };
            self.0.push(Regex::new(&expression).map_err(|error| format!("pattern `{item}`: {error}"))?);
        }
        Ok(())
    }

    /// Whether nothing was added.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any item means the function of this linkage name.
    pub(crate) fn matches(&self, linkage_name: &str) -> bool {
        if self.is_empty() {
            return false;
        }
        let full = demangle(linkage_name);
        let names = [linkage_name, &full, without_parameters(&full)];
        self.0.iter().any(|pattern| names.iter().any(|name| pattern.is_match(name)))
    }
}

/// The items between commas that stand outside brackets and outside `/…/`.
fn items(list: &str) -> Vec<&str> {
    let (mut items, mut start, mut depth, mut regex) = (Vec::new(), 0, 0_u32, false);
    for (at, letter) in list.char_indices() {
        match letter {
            '/' if at == start => regex = true,
            '/' if regex && matches!(list[at + 1..].chars().next(), None | Some(',')) => regex = false,
            _ if regex => {}
            '(' | '<' | '[' | '{' => depth += 1,
            ')' | '>' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&list[start..]);
    items.into_iter().map(str::trim).filter(|item| !item.is_empty()).collect()
}

fn glob(item: &str) -> String {
    let body: String = item
        .chars()
        .map(|letter| match letter {
            '*' => "(?s:.*)".to_owned(),
            '?' => "(?s:.)".to_owned(),
            _ => regex_lite::escape(letter.encode_utf8(&mut [0; 4])),
        })
        .collect();
    format!("^{body}$")
}

/// `ns::f(int) const` without its parameters and what follows them; `operator()` keeps its brackets.
fn without_parameters(name: &str) -> &str {
    let mut depth = 0_u32;
    for (at, letter) in name.char_indices().rev() {
        match letter {
            ')' => depth += 1,
            '(' if depth == 1 => return &name[..at],
            '(' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(list: &str) -> Patterns {
        let mut patterns = Patterns::default();
        patterns.add(list).unwrap();
        patterns
    }

    #[test]
    fn names_mean_the_function_in_every_spelling() {
        for spelling in ["_ZN2ns1fEi", "ns::f", "ns::f(int)", "ns::*", "ns::?", "/^ns::/", "other, ns::f"] {
            assert!(patterns(spelling).matches("_ZN2ns1fEi"), "{spelling}");
            assert!(!patterns(spelling).matches("g"), "{spelling}");
        }
    }

    #[test]
    fn a_plain_name_matches_as_a_whole() {
        assert!(patterns("main").matches("main"));
        assert!(!patterns("main").matches("main_loop"));
        assert!(!patterns("a.c").matches("abc"));
    }

    #[test]
    fn commas_in_brackets_and_regexes_do_not_separate() {
        assert_eq!(items("f(int, int),g<a,b>::h, /x{1,2}/,y"), ["f(int, int)", "g<a,b>::h", "/x{1,2}/", "y"]);
        assert_eq!(items("/a/b/,c"), ["/a/b/", "c"]);
    }

    #[test]
    fn rust_names_are_demangled() {
        assert!(patterns("*core::fmt::write*").matches("_ZN4core3fmt5write17h0123456789abcdefE"));
    }

    #[test]
    fn a_broken_regex_is_named() {
        assert!(Patterns::default().add("/(/").unwrap_err().starts_with("pattern `/(/`: "));
    }

    #[test]
    fn parameters_end_where_they_open() {
        assert_eq!(without_parameters("ns::f(void (*)(int)) const"), "ns::f");
        assert_eq!(without_parameters("S::operator()(int)"), "S::operator()");
        assert_eq!(without_parameters("main"), "main");
    }
}
