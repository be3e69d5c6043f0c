//! Names of functions as the linker has them, in a line of text.

use std::borrow::Cow;

/// The name as the source has it, without parameters, template arguments and hash; the name itself if it is not mangled. What
/// stands in front of the last word stays.
pub fn short(name: &str) -> Cow<'_, str> {
    if let Some((before, symbol)) = name.rsplit_once(' ') {
        return Cow::Owned(format!("{before} {}", short(symbol)));
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return Cow::Owned(without_arguments(&format!("{rust:#}")));
    }
    let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    let demangled = cpp_demangle::Symbol::new(name).ok().and_then(|symbol| symbol.demangle_with_options(&options).ok());
    demangled.map_or(Cow::Borrowed(name), |cpp| Cow::Owned(without_arguments(&cpp)))
}

/// Without what stands in angle brackets, operators left alone.
fn without_arguments(name: &str) -> String {
    if name.contains("operator") || name.starts_with('<') {
        return name.to_owned();
    }
    let mut depth = 0;
    name.chars().fold(String::new(), |mut kept, each| {
        depth += i32::from(each == '<');
        if depth == 0 {
            kept.push(each);
        }
        depth -= i32::from(each == '>');
        kept
    })
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn names_are_as_in_the_source() {
        for (mangled, expected) in [
            ("malloc", "malloc"),
            ("_Znwm", "operator new"),
            (
                "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC2EPKcRKS3_",
                "std::__cxx11::basic_string::basic_string",
            ),
            ("_ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_", "std::_Rb_tree_insert_and_rebalance"),
            ("_ZN3std4sync7barrier7Barrier4wait17h0123456789abcdefE", "std::sync::barrier::Barrier::wait"),
            ("_RNvNtCsjrHSEGnQ3l9_3std7process5abort", "std::process::abort"),
            ("assembly in _ZN3app4copyEPdPKdm", "assembly in app::copy"),
            ("_Zwhat", "_Zwhat"),
        ] {
            assert_eq!(short(mangled), expected, "{mangled}");
        }
    }
}
