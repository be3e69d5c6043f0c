//! The page without its data: what was installed beside this program.

use crate::failure::Failure;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest as _, Sha256};
use std::{
    env, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// The installed files.
#[derive(Debug)]
pub struct Assets {
    template: String,
    /// Also for the pages of `bf serve` that are not reports.
    pub style: String,
    script: String,
    libraries: String,
    /// The engine, compressed, in base64.
    engine: String,
    /// Licences of the libraries.
    pub licences: String,
}

impl Assets {
    /// Reads `share/bf/page` of the tree that this program is installed in.
    ///
    /// # Errors
    /// It is not there, or not whole.
    pub fn find() -> Result<Self, Failure> {
        let folder =
            folder().map_err(|error| Failure::Failed(format!("failed to find this program's files: {error}")))?;
        let missing = |path: &Path, error: io::Error| {
            Failure::Failed(format!(
                "the report page is not installed: {}: {error}; cargo xtask install --prefix PREFIX installs it",
                path.display()
            ))
        };
        let bytes = |name: &str| {
            let path = folder.join(name);
            fs::read(&path).map_err(|error| missing(&path, error))
        };
        let text = |name: &str| {
            let utf8 = |error| missing(&folder.join(name), io::Error::other(error));
            String::from_utf8(bytes(name)?).map_err(utf8)
        };
        let mut packer = GzEncoder::new(Vec::new(), Compression::best());
        packer.write_all(&bytes("engine.wasm")?)?;
        Ok(Self {
            template: text("page.html")?,
            style: text("page.css")?,
            script: text("page.js")?,
            libraries: text("libraries.js")?,
            engine: BASE64.encode(packer.finish()?),
            licences: text("licences.txt")?,
        })
    }

    /// Fills the template. `data` is JSON.
    ///
    /// # Errors
    /// The installed template has a blank that this version does not know.
    pub fn render(&self, title: &str, data: &str) -> Result<String, Failure> {
        // In a script element of JSON only `<` could end the element, and JSON has another way to write it.
        let data = data.replace('<', "\\u003c");
        let title = format!("bf: {}", escape(title));
        let policy = format!(
            "default-src 'none'; script-src 'sha256-{}' 'sha256-{}' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; \
             img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'",
            digest(&self.libraries),
            digest(&self.script)
        );
        let fills = [
            ("policy", policy.as_str()),
            ("title", &title),
            ("style", &self.style),
            ("data", &data),
            ("engine", &self.engine),
            ("libraries", &self.libraries),
            ("script", &self.script),
        ];
        let mut page = String::new();
        let mut parts = self.template.split("{{");
        page += parts.next().unwrap_or_default();
        for part in parts {
            let filled = part.split_once("}}").and_then(|(blank, rest)| {
                let (_, fill) = fills.iter().find(|(name, _)| *name == blank)?;
                Some((*fill, rest))
            });
            let (fill, rest) = filled.ok_or_else(|| {
                Failure::Failed(
                    "the installed report page belongs to another version of bf; install it anew".to_owned(),
                )
            })?;
            page += fill;
            page += rest;
        }
        Ok(page)
    }
}

/// `PREFIX/share/bf/page`, from `PREFIX/bin/bf`.
fn folder() -> io::Result<PathBuf> {
    let program = fs::canonicalize(env::current_exe()?)?;
    let prefix = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    Ok(prefix.join("share/bf/page"))
}

fn digest(script: &str) -> String {
    BASE64.encode(Sha256::digest(script.as_bytes()))
}

/// Text as it stands in HTML, also inside of quotes.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assets(template: &str) -> Assets {
        let text = String::from;
        Assets {
            template: text(template),
            style: text("a{}"),
            script: text("let s='{{title}}'"),
            libraries: text("l"),
            engine: text("e"),
            licences: String::new(),
        }
    }

    #[test]
    fn what_a_profile_says_ends_no_element() {
        let page = assets("<title>{{title}}</title><script>{{data}}</script><script>{{script}}</script>");
        let page = page.render("</title><b>'\"&", r#"{"name":"</script><script>alert(1)"}"#).unwrap();
        assert_eq!(
            page,
            "<title>bf: &lt;/title&gt;&lt;b&gt;&#39;&quot;&amp;</title>\
             <script>{\"name\":\"\\u003c/script>\\u003cscript>alert(1)\"}</script><script>let s='{{title}}'</script>"
        );
    }

    #[test]
    fn only_the_scripts_of_the_page_may_run() {
        let page = assets("{{policy}}").render("", "{}").unwrap();
        // printf l | sha256sum | xxd -r -p | base64
        assert!(page.contains("'sha256-rKyGwOYJypBvYysOLazMsrd9IrBiHyDr7OGkg1uT9vA='"), "{page}");
        assert!(page.starts_with("default-src 'none'; ") && !page.contains("script-src 'unsafe-inline'"), "{page}");
    }

    #[test]
    fn a_template_of_another_version_is_refused() {
        let error = assets("{{other}}").render("", "{}").unwrap_err().to_string();
        assert!(error.contains("install it anew"), "{error}");
    }
}
