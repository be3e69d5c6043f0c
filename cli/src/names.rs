//! Names as the linker has them, in a line of text.

use bf_abi::fortran;
use bf_profile::{ObjectKind, Profile};
use std::borrow::Cow;

/// Variables get the names that the source has for them.
pub fn as_in_source(profile: &mut Profile) {
    for process in &mut profile.processes {
        let objects = process.objects.objects.iter_mut().map(|object| (object.kind, &mut object.name));
        let lines = process.sharing.iter_mut().flat_map(|sharing| &mut sharing.lines);
        let shared = lines.filter_map(|line| line.object.as_mut()).map(|object| (object.kind, &mut object.name));
        for (_, name) in objects.chain(shared).filter(|(kind, _)| *kind == ObjectKind::Global) {
            *name = name.split(", ").map(whole).collect::<Vec<_>>().join(", ");
        }
    }
}

/// The name as the source has it, template arguments and all; the name itself if it is not mangled.
pub fn whole(name: &str) -> Cow<'_, str> {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return Cow::Owned(format!("{rust:#}"));
    }
    let cpp = cpp(name).and_then(|symbol| symbol.demangle().ok());
    cpp.or_else(|| fortran::demangle(name)).map_or(Cow::Borrowed(name), Cow::Owned)
}

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
    let demangled = cpp(name).and_then(|symbol| symbol.demangle_with_options(&options).ok());
    let without = demangled.map(|cpp| without_arguments(&cpp));
    without.or_else(|| fortran::demangle(name)).map_or(Cow::Borrowed(name), Cow::Owned)
}

/// A symbol of C++. By themselves its letters are types, `b` a `bool`.
fn cpp(name: &str) -> Option<cpp_demangle::Symbol<&str>> {
    name.starts_with("_Z").then(|| cpp_demangle::Symbol::new(name).ok())?
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
    use super::{short, whole};

    #[test]
    fn names_are_as_in_the_source() {
        for (mangled, expected) in [
            ("malloc", "malloc"),
            ("b", "b"),
            ("_Znwm", "operator new"),
            (
                "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC2EPKcRKS3_",
                "std::__cxx11::basic_string::basic_string",
            ),
            ("_ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_", "std::_Rb_tree_insert_and_rebalance"),
            ("_ZN3std4sync7barrier7Barrier4wait17h0123456789abcdefE", "std::sync::barrier::Barrier::wait"),
            ("_RNvNtCsjrHSEGnQ3l9_3std7process5abort", "std::process::abort"),
            ("assembly in _ZN3app4copyEPdPKdm", "assembly in app::copy"),
            ("_QMgridPsweep", "grid::sweep"),
            ("_Zwhat", "_Zwhat"),
        ] {
            assert_eq!(short(mangled), expected, "{mangled}");
        }
    }

    #[test]
    fn variables_keep_their_template_arguments() {
        for (mangled, expected) in [
            ("table", "table"),
            ("b", "b"),
            ("_ZN3app6totalsE", "app::totals"),
            ("_ZN3app5TableIdE6countsE", "app::Table<double>::counts"),
            ("_ZZ4mainE5local", "main::local"),
            ("_ZN3app5TABLE17h0123456789abcdefE", "app::TABLE"),
            ("_QMgridEu", "grid::u"),
        ] {
            assert_eq!(whole(mangled), expected, "{mangled}");
        }
    }
}
