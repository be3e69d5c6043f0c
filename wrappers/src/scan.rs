//! What the compiler will do with a command line: as much of the driver's own reading as decides where our options go.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

use crate::response::Word;

/// What was found out about a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// It ends in a link.
    pub links: bool,
    /// `-shared`.
    pub shared: bool,
    /// `-static` or `-static-pie`, and not `-shared`.
    pub static_: bool,
    /// `-r`: the output is linked again, and gets its runtime then.
    pub relocatable: bool,
    /// `-nostdlib` or the like: the C library comes as an ordinary argument or not at all.
    pub no_libc: bool,
    /// `-ffreestanding` or a kernel: no C library under the code, so nothing is instrumented.
    pub freestanding: bool,
    /// Not the machine the runtime was built for.
    pub foreign_target: bool,
    /// Our pass is on the command line already.
    pub has_pass: bool,
    /// The user gave a run path.
    pub has_rpath: bool,
    /// Not a driver command (`-cc1`), or one of a driver with other options (`--driver-mode=cl`).
    pub not_gcc_like: bool,
    /// Where in the given words the runtime goes: before this one, or at the end. Everything after `--` is a file, and
    /// the runtime must come before the C library.
    pub runtime_before: Option<usize>,
    /// The `-x` in force at that place; `None` if it is `none`.
    pub language: Option<String>,
}

/// Options whose value is the next word.
const SEPARATE: &[&str] = &[
    "-A",
    "-B",
    "-D",
    "-F",
    "-G",
    "-I",
    "-J",
    "-L",
    "-MF",
    "-MJ",
    "-MQ",
    "-MT",
    "-T",
    "-U",
    "-V",
    "-Xanalyzer",
    "-Xarch_device",
    "-Xarch_host",
    "-Xassembler",
    "-Xclang",
    "-Xcuda-fatbinary",
    "-Xcuda-ptxas",
    "-Xlinker",
    "-Xoffload-linker",
    "-Xopenmp-target",
    "-Xpreprocessor",
    "-arch",
    "-b",
    "-current_version",
    "-dumpdir",
    "-e",
    "-idirafter",
    "-imacros",
    "-imultilib",
    "-include",
    "-include-pch",
    "-iprefix",
    "-iquote",
    "-isysroot",
    "-isystem",
    "-isystem-after",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-iwithsysroot",
    "-l",
    "-mllvm",
    "-mmlir",
    "-o",
    "-resource-dir",
    "-serialize-diagnostics",
    "-target",
    "-u",
    "-working-directory",
    "-x",
    "-z",
    "--assert",
    "--config",
    "--define-macro",
    "--for-linker",
    "--include-directory",
    "--include-directory-after",
    "--language",
    "--library-directory",
    "--output",
    "--param",
    "--resource",
    "--sysroot",
    "--undefine-macro",
];

/// Options that stop before the link, or do something else altogether.
const NO_LINK: &[&str] = &[
    "-c",
    "-S",
    "-E",
    "-M",
    "-MM",
    "-fsyntax-only",
    "-emit-ast",
    "-module-file-info",
    "-rewrite-objc",
    "-rewrite-legacy-objc",
    "-verify-pch",
    "-extract-api",
    "-emit-interface-stubs",
    "-emit-merged-ifs",
    "-dumpversion",
    "-dumpmachine",
    "-help",
    "-ivfsstatcache",
    "--analyze",
    "--assemble",
    "--compile",
    "--dependencies",
    "--user-dependencies",
    "--preprocess",
    "--precompile",
    "--emit-static-lib",
    "--help",
    "--help-hidden",
    "--version",
];

/// File name extensions of headers, which are precompiled.
const HEADERS: &[&str] = &["h", "hh", "H", "hp", "hpp", "HPP", "hxx", "h++"];

/// Reads a command line.
#[must_use]
pub fn scan(words: &[Word]) -> Scan {
    let mut reader = Reader { links: true, hosted: true, ..Reader::default() };
    let mut flat = words.iter().enumerate().flat_map(|(at, word)| word.words().iter().map(move |word| (at, word)));
    while let Some((at, word)) = flat.next() {
        let text = word.to_string_lossy();
        let value = if !reader.only_files && SEPARATE.contains(&&*text) {
            // A response file may hold an option and the next word its value.
            let Some((_, value)) = flat.next() else { break };
            Some(value.to_string_lossy())
        } else {
            None
        };
        reader.word(at, &text, value);
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    scan: Scan,
    links: bool,
    hosted: bool,
    /// MemorySanitizer, which must have compiled every library a program uses, ours included.
    shadowed: bool,
    static_: bool,
    kernel: bool,
    narrow: bool,
    foreign: bool,
    /// Inputs that are compiled or linked, and those that are headers.
    inputs: usize,
    headers: usize,
    only_files: bool,
    first: bool,
    language: Option<String>,
}

impl Reader {
    fn word(&mut self, at: usize, text: &str, value: Option<Cow<'_, str>>) {
        let first = !std::mem::replace(&mut self.first, true);
        if self.only_files || text == "-" || !text.starts_with('-') {
            return self.input(at, text);
        }
        if let Some(value) = value {
            return self.with_value(at, text, &value);
        }
        if NO_LINK.contains(&text) || text.starts_with("-print-") || text.starts_with("--print-") {
            self.links = false;
            return;
        }
        match text {
            "--" => {
                self.runtime_here(at);
                self.only_files = true;
            }
            "-cc1" | "-cc1as" | "-cc1gen-reproducer" if first => self.scan.not_gcc_like = true,
            "-shared" | "--shared" => self.scan.shared = true,
            "-static" | "--static" | "-static-pie" | "--static-pie" => self.static_ = true,
            "-r" => self.scan.relocatable = true,
            "-nostdlib" | "--no-standard-libraries" | "-nodefaultlibs" | "-nolibc" => self.scan.no_libc = true,
            "-ffreestanding" => self.hosted = false,
            "-fhosted" | "-fno-freestanding" => self.hosted = true,
            "-mcmodel=kernel" | "-mkernel" | "-fapple-kext" => self.kernel = true,
            "-m16" | "-m32" | "-mx32" => self.narrow = true,
            "-m64" => self.narrow = false,
            _ if text.starts_with("-fsanitize=") => {
                self.shadowed |= text["-fsanitize=".len()..].split(',').any(|name| name == "memory");
            }
            _ => self.joined(at, text),
        }
    }

    fn joined(&mut self, at: usize, text: &str) {
        let after = |prefix| text.strip_prefix(prefix);
        if let Some(list) = after("-Wl,") {
            self.inputs += 1;
            list.split(',').for_each(|word| self.linker(word));
        } else if let Some(word) = after("--for-linker=") {
            self.inputs += 1;
            self.linker(word);
        } else if let Some(library) = after("-l") {
            self.library(at, library);
        } else if let Some(language) = after("-x").or_else(|| after("--language=")) {
            self.set_language(language);
        } else if let Some(triple) = after("--target=") {
            self.foreign = is_foreign(triple);
        } else if let Some(mode) = after("--driver-mode=") {
            self.links &= mode != "cpp";
            self.scan.not_gcc_like |= !matches!(mode, "gcc" | "g++" | "cpp");
        } else if let Some(plugin) = after("-fpass-plugin=") {
            let name = Path::new(plugin).file_name().and_then(OsStr::to_str).unwrap_or_default();
            self.scan.has_pass |= name.starts_with("libbf_pass");
        } else if text == "-fmodule-header"
            || text.starts_with("-fmodule-header=")
            || text.starts_with("--autocomplete=")
        {
            self.links = false;
        }
    }

    fn with_value(&mut self, at: usize, option: &str, value: &str) {
        match option {
            "-x" | "--language" => self.set_language(value),
            "-target" => self.foreign = is_foreign(value),
            "-l" => self.library(at, value),
            "-Xlinker" | "--for-linker" => {
                self.inputs += 1;
                self.linker(value);
            }
            _ => {}
        }
    }

    fn linker(&mut self, word: &str) {
        match word {
            "-r" | "-i" | "-Ur" | "--relocatable" => self.scan.relocatable = true,
            "-shared" | "--shared" | "-Bshareable" => self.scan.shared = true,
            _ => {
                let name = word.trim_start_matches('-');
                self.scan.has_rpath |= word.starts_with('-')
                    && (name.starts_with("rpath") && !name.starts_with("rpath-link") || name == "R");
            }
        }
    }

    fn library(&mut self, at: usize, name: &str) {
        self.inputs += 1;
        if matches!(name, "c" | ":libc.so" | ":libc.so.6") {
            self.runtime_here(at);
        }
    }

    fn input(&mut self, at: usize, file: &str) {
        self.inputs += 1;
        let path = Path::new(file);
        let header = match &self.language {
            Some(language) => language.ends_with("-header"),
            None => path.extension().and_then(OsStr::to_str).is_some_and(|extension| HEADERS.contains(&extension)),
        };
        self.headers += usize::from(header);
        if matches!(path.file_name().and_then(OsStr::to_str), Some("libc.so" | "libc.so.6")) {
            self.runtime_here(at);
        }
    }

    fn set_language(&mut self, language: &str) {
        self.language = (language != "none").then(|| language.to_owned());
    }

    fn runtime_here(&mut self, at: usize) {
        if self.scan.runtime_before.is_none() {
            self.scan.runtime_before = Some(at);
            self.scan.language = self.language.clone();
        }
    }

    fn finish(mut self) -> Scan {
        if self.scan.runtime_before.is_none() {
            self.scan.language = self.language;
        }
        self.scan.links = self.links && self.inputs > self.headers;
        self.scan.static_ = self.static_ && !self.scan.shared;
        self.scan.freestanding = !self.hosted || self.kernel;
        self.scan.foreign_target = self.narrow || self.foreign || self.shadowed;
        self.scan
    }
}

/// Whether `triple` is another machine or C library than the runtime's.
fn is_foreign(triple: &str) -> bool {
    let mut parts = triple.split('-');
    let arch = match parts.next() {
        Some("amd64") => "x86_64",
        Some("arm64") => "aarch64",
        other => other.unwrap_or_default(),
    };
    let rest: Vec<_> = parts.collect();
    arch != std::env::consts::ARCH || !rest.contains(&"linux") || !matches!(rest.last(), Some(&("gnu" | "linux")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response;

    /// Words by white space, as they would stand on a command line.
    fn scan_line(line: &str) -> Scan {
        scan(&response::expand(response::split(line.as_bytes())))
    }

    #[test]
    fn only_a_command_that_ends_in_a_link_links() {
        for line in [
            "a.c",
            "a.o -o a",
            "-O2 -MD -MF a.d a.c",
            "-x c -",
            "-x c a -o b",
            "a.c b.h",
            "-shared -Wl,--whole-archive,liba.a",
            "-Xlinker -v",
            "-### a.c",
            "-v a.c",
            "-o -c a.c",
            "-Xclang -E a.c",
            "-include -c a.c",
            "-flto=thin a.o",
            "-lfoo",
            "-- a.c",
            "x.S",
            "--driver-mode=g++ a.cc",
        ] {
            assert!(scan_line(line).links, "{line}");
        }
        for line in [
            "",
            "-v",
            "-###",
            "--version",
            "-dumpmachine a.c",
            "-print-search-dirs",
            "-print-prog-name=ld",
            "--print-resource-dir",
            "-c a.c",
            "-S a.c",
            "-E a.c",
            "-M a.c",
            "-MM a.c",
            "-fsyntax-only a.c",
            "-x c-header a",
            "-x c++-header -o a.pch a.hpp",
            "a.h",
            "a.hpp b.h",
            "--precompile a.cppm -o a.pcm",
            "-fmodule-header=user a.h",
            "-emit-ast a.c",
            "--analyze a.c",
            "-E -",
            "--driver-mode=cpp a.c",
            "-o a",
        ] {
            assert!(!scan_line(line).links, "{line}");
        }
    }

    #[test]
    fn kind_of_link() {
        type Check = fn(&Scan) -> bool;
        let shared: Check = |scan| scan.shared;
        let static_: Check = |scan| scan.static_;
        let relocatable: Check = |scan| scan.relocatable;
        let no_libc: Check = |scan| scan.no_libc;
        let rpath: Check = |scan| scan.has_rpath;
        for (line, check, expected) in [
            ("-shared a.o", shared, true),
            ("-Wl,-shared a.o", shared, true),
            ("-o -shared a.o", shared, false),
            ("-static a.o", static_, true),
            ("-static-pie a.o", static_, true),
            ("-static -shared a.o", static_, false),
            ("-static-libgcc a.o", static_, false),
            ("-Wl,-static a.o", static_, false),
            ("-r a.o", relocatable, true),
            ("-Wl,-z,now,-r a.o", relocatable, true),
            ("-Xlinker --relocatable a.o", relocatable, true),
            ("-rdynamic a.o", relocatable, false),
            ("-nostdlib a.o", no_libc, true),
            ("-nodefaultlibs a.o", no_libc, true),
            ("-nostdlib++ a.o", no_libc, false),
            ("-nostartfiles a.o", no_libc, false),
            ("-Wl,-rpath,/x a.o", rpath, true),
            ("-Wl,-rpath=/x a.o", rpath, true),
            ("-Wl,-R,/x a.o", rpath, true),
            ("-Xlinker --rpath -Xlinker /x a.o", rpath, true),
            ("-Wl,-rpath-link,/x a.o", rpath, false),
        ] {
            assert_eq!(check(&scan_line(line)), expected, "{line}");
        }
    }

    #[test]
    fn targets_that_are_not_instrumented() {
        let arch = std::env::consts::ARCH;
        for (line, foreign) in [
            ("-m32 a.c".to_owned(), true),
            ("-m32 -m64 a.c".to_owned(), false),
            ("-target wasm32-wasi a.c".to_owned(), true),
            ("--target=wasm32 a.c".to_owned(), true),
            (format!("--target={arch}-pc-linux-gnu a.c"), false),
            (format!("-target {arch}-linux-gnu a.c"), false),
            (format!("--target={arch}-linux-musl a.c"), true),
            (format!("--target={arch}-unknown-none-elf a.c"), true),
            (format!("--target={arch}-w64-mingw32 a.c"), true),
        ] {
            assert_eq!(scan_line(&line).foreign_target, foreign, "{line}");
        }
    }

    #[test]
    fn memory_sanitizer_is_left_alone() {
        for (line, left) in [
            ("-fsanitize=memory -c a.c", true),
            ("-fsanitize=undefined,memory -c a.c", true),
            ("-fsanitize=address -c a.c", false),
        ] {
            assert_eq!(scan_line(line).foreign_target, left, "{line}");
        }
    }

    #[test]
    fn code_without_a_c_library_is_freestanding() {
        for (line, freestanding) in [
            ("-ffreestanding -c a.c", true),
            ("-ffreestanding -fhosted -c a.c", false),
            ("-mcmodel=kernel -c a.c", true),
            ("-nostdinc -c a.c", false),
        ] {
            assert_eq!(scan_line(line).freestanding, freestanding, "{line}");
        }
    }

    #[test]
    fn the_runtime_goes_where_it_is_read_as_a_library_and_before_the_c_library() {
        for (line, at, language) in [
            ("a.c", None, None),
            ("-x c a", None, Some("c")),
            ("-xc a -x none b.o", None, None),
            ("-x c -O2 -- a", Some(3), Some("c")),
            ("a.o -lm -lc -x c b", Some(2), None),
            ("a.o -l c", Some(1), None),
            ("a.o /usr/lib/libc.so.6", Some(1), None),
            ("a.o -lcrypto", None, None),
        ] {
            let scan = scan_line(line);
            assert_eq!((scan.runtime_before, scan.language.as_deref()), (at, language), "{line}");
        }
    }

    #[test]
    fn an_option_and_its_value_may_be_parted_by_a_response_file() {
        let words = [
            Word { given: "@one".into(), expansion: Some(vec!["a.c".into(), "-o".into()]) },
            Word { given: "-c".into(), expansion: None },
        ];
        assert!(scan(&words).links, "-c is the output's name here");
    }

    #[test]
    fn our_pass_and_other_drivers_are_seen() {
        assert!(scan_line("-fpass-plugin=/p/lib/bf/libbf_pass-22.so -c a.c").has_pass);
        assert!(!scan_line("-fpass-plugin=/p/other.so -c a.c").has_pass);
        assert!(scan_line("-cc1 -emit-obj a.c").not_gcc_like);
        assert!(scan_line("--driver-mode=cl a.c").not_gcc_like);
        assert!(!scan_line("a.c -cc1").not_gcc_like);
    }
}
