//! Response files: `@file` stands for the words in that file, by the rules of LLVM's GNU-style tokenizer.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// Depth at which nested response files are taken for a cycle and left alone; the compiler then reports it.
const MAX_DEPTH: usize = 16;

/// One word as it was given, and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word on the command line.
    pub given: OsString,
    /// The words of the response file it names; `None` for a word that stands for itself.
    pub expansion: Option<Vec<OsString>>,
}

impl Word {
    /// The words it stands for.
    #[must_use]
    pub fn words(&self) -> &[OsString] {
        self.expansion.as_deref().unwrap_or(std::slice::from_ref(&self.given))
    }
}

/// Looks into every `@file` among `args`. One that cannot be read stands for itself, as it does for the compiler.
#[must_use]
pub fn expand(args: Vec<OsString>) -> Vec<Word> {
    args.into_iter().map(|given| Word { expansion: read(&given, 0), given }).collect()
}

fn read(word: &OsStr, depth: usize) -> Option<Vec<OsString>> {
    let file = word.as_bytes().strip_prefix(b"@")?;
    if depth == MAX_DEPTH {
        return None;
    }
    let text = fs::read(OsStr::from_bytes(file)).ok()?;
    let mut words = Vec::new();
    for word in split(&text) {
        match read(&word, depth + 1) {
            Some(nested) => words.extend(nested),
            None => words.push(word),
        }
    }
    Some(words)
}

/// Splits `text` at white space. A backslash takes the next byte literally, within quotes of both kinds too; a
/// backslash before a line end joins the lines.
#[must_use]
pub fn split(text: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', _) => match bytes.next() {
                Some(b'\n') if quote.is_none() => {}
                Some(b'\r') if quote.is_none() && bytes.peek() == Some(&b'\n') => drop(bytes.next()),
                Some(literal) => word.get_or_insert_default().push(literal),
                None => word.get_or_insert_default().push(b'\\'),
            },
            (_, Some(open)) if byte == open => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(byte),
            (b'\'' | b'"', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (b' ' | b'\t' | b'\r' | b'\n', None) => words.extend(word.take().map(OsString::from_vec)),
            (_, None) => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.map(OsString::from_vec));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_split_as_llvm_splits_them() {
        for (text, words) in [
            ("-c  a.c\n-o\ta.o\n", vec!["-c", "a.c", "-o", "a.o"]),
            (r#"-DX="a b" 'c d'e "" f"#, vec!["-DX=a b", "c de", "", "f"]),
            (r#"-DS=\"text\" a\ b 'it\'s'"#, vec![r#"-DS="text""#, "a b", "it's"]),
            ("-O2 \\\n-g", vec!["-O2", "-g"]),
            ("", vec![]),
        ] {
            assert_eq!(split(text.as_bytes()), words, "{text:?}");
        }
    }

    #[test]
    fn nested_files_are_expanded_and_missing_ones_kept() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        let outer = dir.path().join("outer");
        fs::write(&inner, "-c a.c").unwrap();
        fs::write(&outer, format!("-O2 @{} @/no/such/file", inner.display())).unwrap();
        let given = OsString::from(format!("@{}", outer.display()));
        let words = expand(vec![given.clone(), "-g".into(), "@/none".into()]);
        assert_eq!(words[0].given, given);
        assert_eq!(words[0].words(), ["-O2", "-c", "a.c", "@/no/such/file"]);
        assert_eq!(words[1].words(), ["-g"]);
        assert_eq!(words[2].expansion, None);
    }

    #[test]
    fn a_file_that_names_itself_ends() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("loop");
        fs::write(&file, format!("-g @{}", file.display())).unwrap();
        let words = expand(vec![format!("@{}", file.display()).into()]);
        assert_eq!(words[0].words().len(), MAX_DEPTH + 1);
    }
}
