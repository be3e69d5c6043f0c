//! The first page of a server of several profiles.

use super::Site;
use crate::{
    output::{counted, number},
    page::escape,
};

/// The list; a profile that cannot be read is on it with the reason.
pub fn page(site: &Site) -> String {
    let mut rows = String::new();
    for (index, path) in site.profiles.iter().enumerate() {
        let path = escape(&path.display().to_string());
        rows += &match site.load(index) {
            Ok(loaded) => {
                let processes = &loaded.profile.processes;
                let accesses: u64 = processes.iter().map(|process| process.meta.accesses).sum();
                let command = processes.first().map_or_else(String::new, |process| process.meta.command.join(" "));
                format!(
                    "<tr><th scope=\"row\"><label><input type=\"checkbox\" name=\"with\" value=\"{index}\"> compare</label></th>\
                     <td class=\"left\"><a href=\"{index}\"><bdi>{path}</bdi></a></td><td class=\"left\"><bdi>{}</bdi></td>\
                     <td>{}</td><td>{}</td></tr>\n",
                    escape(&command),
                    number(processes.len() as u64),
                    number(accesses)
                )
            }
            Err(failure) => format!(
                "<tr><td></td><td class=\"left\"><bdi>{path}</bdi></td>\
                 <td class=\"left refusal\" colspan=\"3\">{}</td></tr>\n",
                escape(&failure.to_string())
            ),
        };
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         img-src data:; form-action 'self'; base-uri 'self'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <base href=\"/{}/\">\n<title>bf: {}</title>\n<style>{}</style>\n</head>\n<body>\n\
         <header class=\"band\"><p class=\"kicker\">Data movement</p><h1>Profiles</h1></header>\n\
         <main class=\"band\"><section><form action=\"compare\"><div class=\"scroll\"><table class=\"list\">\n\
         <thead><tr><th scope=\"col\"></th><th scope=\"col\">profile</th><th scope=\"col\">command</th>\
         <th scope=\"col\">processes</th><th scope=\"col\">accesses</th></tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n\
         <p><button>Compare those chosen</button></p></form></section></main>\n</body>\n</html>\n",
        site.token,
        counted(site.profiles.len() as u64, "profile"),
        site.assets.style,
    )
}
