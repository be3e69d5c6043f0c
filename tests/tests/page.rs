//! The report page in a real browser: it gives the command's figures, draws, stays within itself, and can be used without a
//! mouse.

use bf_page::Page;
use bf_profile::{CacheLevel, Callee, Profile};
use bf_tests::browser::Browser;
use bf_tests::sandbox::{Sandbox, output, succeed, text};
use serde_json::{Value, json};
use std::path::PathBuf;

const PHASES: &str = include_str!("../programs/phases.c");

/// A program by place and with tags, run once for each argument; the profiles are `0.bfp`, `1.bfp`, ….
fn run(arguments: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("phases.c", PHASES);
    sandbox.bf_clang(["phases.c", "-O1", "-g", "-bf-by-func", "-o", "phases"]);
    for (number, argument) in arguments.iter().enumerate() {
        let profile = sandbox.file(&format!("{number}.bfp"));
        let _ = succeed(sandbox.program("phases").arg(argument).env("BF_PROFILE", profile));
    }
    sandbox
}

/// Writes the report of these profiles.
fn report(sandbox: &Sandbox, arguments: &[&str]) -> PathBuf {
    let mut command = sandbox.command(bf_tests::program("bf"));
    let output = succeed(command.args(["report", "--html", "report.html"]).args(arguments));
    let said = text(&output.stdout);
    assert!(said.starts_with("report.html: ") && said.contains("iB; it opens"), "{said}");
    sandbox.file("report.html")
}

/// Figures of the table of answers: level, figure, value.
fn shown(browser: &mut Browser, profile: usize) -> Vec<Value> {
    let cells = browser.evaluate(&format!(
        "[...document.querySelectorAll('#answer td[data-profile=\"{profile}\"]')]
            .map((cell) => [cell.dataset.level, cell.dataset.figure, Number(cell.dataset.value), cell.textContent])"
    ));
    cells.as_array().unwrap().clone()
}

/// What `bf query` says to the caches that the page says it shows.
fn answer(sandbox: &Sandbox, browser: &mut Browser, profile: usize) -> (Vec<String>, Value) {
    let command = browser.evaluate("document.getElementById('command').textContent");
    let words: Vec<_> = command.as_str().unwrap().split(' ').collect();
    assert_eq!(words[..2], ["bf", "query"]);
    let caches: Vec<_> = words.windows(2).filter(|pair| pair[0] == "--cache").map(|pair| pair[1].to_owned()).collect();
    let file = format!("{profile}.bfp");
    let mut arguments = vec!["query", &file];
    caches.iter().for_each(|cache| arguments.extend(["--cache", cache]));
    (caches.clone(), sandbox.bf(&arguments))
}

/// Compares every figure shown with the command's.
fn agree(sandbox: &Sandbox, browser: &mut Browser, profile: usize) -> Vec<String> {
    let (caches, answer) = answer(sandbox, browser, profile);
    let shown = shown(browser, profile);
    assert_eq!(shown.len(), caches.len() * 7, "accesses, hits, misses, three kinds and write-backs: {shown:?}");
    for cell in shown {
        let level = answer["levels"].as_array().unwrap().iter().find(|level| level["name"] == cell[0]).unwrap();
        let figure = &level[cell[1].as_str().unwrap()];
        match figure.as_u64() {
            Some(count) => {
                assert_eq!(cell[2].as_f64(), Some(count as f64), "{cell} of {caches:?}");
                assert_eq!(cell[3].as_str().unwrap().replace(',', ""), count.to_string());
            }
            None => assert_eq!(cell[3], "–", "{cell} of {caches:?}"),
        }
    }
    caches
}

/// Nothing was complained about, and nothing but these addresses was asked for.
fn quiet(browser: &Browser, addresses: &[String]) {
    assert_eq!(browser.complaints(), Vec::<String>::new());
    assert_eq!(browser.requests(), addresses);
}

fn file_address(path: &std::path::Path) -> String {
    format!("file://{}", path.display())
}

#[test]
fn sliders_give_the_figures_of_the_command() {
    let sandbox = run(&["6"]);
    let caches = ["--cache", "L1=32K:8", "--cache", "L2=256K:8"];
    let page = report(&sandbox, &[&["0.bfp"], &caches[..]].concat());
    let size = std::fs::metadata(&page).unwrap().len();
    assert!(size < 2 << 20, "{size} bytes");
    let mut browser = Browser::start();
    browser.open_file(&page);
    assert_eq!(agree(&sandbox, &mut browser, 0), ["L1=32K:8:private", "L2=256K:8:private"]);

    // With the keyboard alone: size and ways of the first level, then its size again, to what is no power of two.
    let slide = |browser: &mut Browser, level: &str, control: &str, key: &str, times: usize| {
        let slider = format!("document.querySelector('[data-level=\"{level}\"] [data-control=\"{control}\"]')");
        browser.evaluate(&format!("{slider}.focus()"));
        (0..times).for_each(|_| browser.press(key));
    };
    slide(&mut browser, "L1", "size", "ArrowLeft", 6);
    assert_eq!(agree(&sandbox, &mut browser, 0)[0], "L1=4K:8:private");
    slide(&mut browser, "L1", "ways", "ArrowLeft", 5);
    assert_eq!(agree(&sandbox, &mut browser, 0)[0], "L1=4K:1:private");
    slide(&mut browser, "L2", "ways", "ArrowRight", 3);
    slide(&mut browser, "L2", "size", "ArrowLeft", 3);
    assert_eq!(agree(&sandbox, &mut browser, 0), ["L1=4K:1:private", "L2=96K:12:private"]);

    // A hierarchy typed in, one more level, a preset.
    let typed = "(() => { const input = document.getElementById('level-0-size'); input.value = '1.5K'; input.dispatchEvent(new Event('change')); })()";
    browser.evaluate(typed);
    assert_eq!(agree(&sandbox, &mut browser, 0)[0], "L1=1.5K:1:private");
    browser.evaluate("[...document.querySelectorAll('#whatif button')].find((button) => button.textContent === 'Add a level').click()");
    assert_eq!(agree(&sandbox, &mut browser, 0).len(), 3);
    let preset = "(() => { const start = document.querySelector('#whatif select');
        start.value = [...start.options].find((option) => option.text.startsWith('skylake-sp')).value;
        start.dispatchEvent(new Event('change')); })()";
    browser.evaluate(preset);
    let skylake = agree(&sandbox, &mut browser, 0);
    assert_eq!(skylake.len(), 3);
    assert!(skylake[2].contains(":shared") && skylake[0] == "L1=32K:8:64:private", "{skylake:?}");

    // What cannot be is refused in the words of the command, and the page goes on.
    browser.evaluate(&typed.replace("1.5K", "30000"));
    let refusal = browser.evaluate("document.querySelector('#result .refusal').textContent");
    assert!(
        refusal.as_str().unwrap().contains("nearest possible size is 29.5K")
            || refusal.as_str().unwrap().contains("29K"),
        "{refusal}"
    );
    let command = browser.evaluate("document.getElementById('command').textContent");
    assert!(command.as_str().unwrap().contains("--cache L1=30000:8:64:private "), "{command}");
    browser.evaluate(&typed.replace("1.5K", "1e9"));
    let refusal = browser.evaluate("document.querySelector('#result .refusal').textContent");
    assert!(refusal.as_str().unwrap().starts_with("`1e9` is no size"), "{refusal}");
    browser.evaluate(&typed.replace("1.5K", "64K"));
    assert_eq!(agree(&sandbox, &mut browser, 0)[0], "L1=64K:8:64:private");
    quiet(&browser, &[file_address(&page)]);
}

#[test]
fn everything_is_drawn_and_can_be_kept() {
    let sandbox = run(&["6"]);
    let page = report(&sandbox, &["0.bfp", "--cache", "L1=32K:8", "--cache", "L2=256K:8"]);
    let mut browser = Browser::start();
    browser.open_file(&page);
    // Curves with as many points as there are sizes, and a cell for each cache.
    let curves = "[...document.querySelectorAll('#curves [aria-label=\"line\"] path')].map((path) => path.getAttribute('d').split(/[LC]/).length)";
    let points: Vec<u64> = serde_json::from_value(browser.evaluate(curves)).unwrap();
    assert!(points.len() == 6 && points.iter().all(|&points| points > 6), "{points:?}");
    browser.until("document.querySelectorAll('#heat [aria-label=\"cell\"] rect').length > 50");
    assert!(
        browser.evaluate("document.querySelectorAll('#whatif [aria-label=\"bar\"] rect').length").as_u64() > Some(2)
    );
    let labels =
        browser.evaluate("[...document.querySelectorAll('#curves svg')].map((svg) => svg.textContent).join(' ')");
    for label in
        ["cache size (bytes)", "misses (% of references)", "L1 32 KiB", "L2 256 KiB", "fully associative", "1 MiB"]
    {
        assert!(labels.as_str().unwrap().contains(label), "{label}: {labels}");
    }
    // The matrix of 256 KiB is a working set.
    let sets = browser.evaluate("document.getElementById('sets').textContent");
    assert!(sets.as_str().unwrap().contains("512 KiB") || sets.as_str().unwrap().contains("256 KiB"), "{sets}");

    // Functions and source, the same as the command's.
    let rows = sandbox.bf(&["report", "0.bfp", "--by", "function", "--cache", "L1=32K:8", "--cache", "L2=256K:8"]);
    let first = &rows["items"][0];
    let cells = browser.evaluate("[...document.querySelectorAll('#places-table tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))");
    assert_eq!(cells[0][0], first["name"]);
    assert_eq!(cells.as_array().unwrap().len(), rows["items"].as_array().unwrap().len());
    let count =
        |cell: &Value| cell.as_str().unwrap().split('\n').next().unwrap().split(' ').next().unwrap().replace(',', "");
    assert_eq!(count(&cells[0][4]), first["L2.misses"].to_string());
    browser.evaluate("document.querySelector('#places-table button').click()");
    let line = (1 + PHASES.lines().position(|line| line.ends_with("/* list */")).unwrap()).to_string();
    let source = browser.evaluate("[...document.querySelectorAll('#source-table tbody tr:not(.gap)')].map((row) => [0, 1, 4].map((at) => row.cells[at].textContent))");
    let shown = source.as_array().unwrap().iter().find(|row| row[0] == line.as_str()).unwrap();
    assert!(shown[2].as_str().unwrap().contains("next_node[node]; /* list */") && shown[1] == "131,072", "{shown}");
    let tags = browser.evaluate("[...document.querySelectorAll('#tags tbody th')].map((cell) => cell.textContent)");
    assert_eq!(tags, json!(["list", "rows"]));

    // Pictures to keep.
    let folder = sandbox.file("kept");
    std::fs::create_dir(&folder).unwrap();
    browser.call("Page.setDownloadBehavior", json!({ "behavior": "allow", "downloadPath": folder }));
    for (kind, begin) in [("SVG", &b"<svg"[..]), ("PNG", b"\x89PNG")] {
        browser.evaluate(&format!("[...document.querySelectorAll('#curves .saves button')].find((button) => button.textContent === '{kind}').click()"));
        browser.wait(|event| event["method"] == "Page.downloadProgress" && event["params"]["state"] == "completed");
        let kept = std::fs::read(folder.join(format!("miss-ratio-curves.{}", kind.to_lowercase()))).unwrap();
        assert!(kept.starts_with(begin) && kept.len() > 5000, "{kind}: {} bytes", kept.len());
    }
    quiet(&browser, &[file_address(&page)]);
}

#[test]
fn profiles_stand_side_by_side() {
    let sandbox = run(&["2", "40"]);
    let page = report(&sandbox, &["--each", "0.bfp", "1.bfp", "--cache", "L1=32K:8", "--cache", "L2=512K:8"]);
    let mut browser = Browser::start();
    browser.open_file(&page);
    agree(&sandbox, &mut browser, 0);
    agree(&sandbox, &mut browser, 1);
    assert_eq!(browser.evaluate("document.querySelectorAll('#curves [aria-label=\"line\"] path').length"), 2);
    let legend = browser.evaluate("document.querySelector('#curves svg').textContent");
    assert!(legend.as_str().unwrap().contains("0.bfp") && legend.as_str().unwrap().contains("1.bfp"), "{legend}");
    browser.until("document.querySelectorAll('#heat figure svg').length === 2");
    quiet(&browser, &[file_address(&page)]);
    // Three levels of both have room at the width of a laptop.
    let caches = ["--cache", "L1=48K:12", "--cache", "L2=2M:16", "--cache", "L3=300M:20:shared:hashed"];
    let page = report(&sandbox, &[&["--each", "0.bfp", "1.bfp"], &caches[..]].concat());
    browser.window(1280, 900);
    browser.open_file(&page);
    let widths = browser
        .evaluate("[...document.querySelectorAll('#answer, .scroll:has(#answer)')].map((box) => box.clientWidth)");
    assert!(widths[0].as_u64() >= widths[1].as_u64(), "{widths}");
}

#[test]
fn several_programs_are_named_and_without_distances_there_is_the_overview_only() {
    let sandbox = run(&[]);
    std::fs::copy(sandbox.file("phases"), sandbox.file("other")).unwrap();
    for (number, program) in ["phases", "other"].iter().enumerate() {
        let profile = sandbox.file(&format!("{number}.bfp"));
        let run = &mut sandbox.program(program);
        let _ = succeed(run.arg("2").env("BF_PROFILE", profile).env("BF_LINE_SIZE", "none"));
    }
    let page = report(&sandbox, &["0.bfp", "1.bfp", "--cache", "L1=32K:8"]);
    let mut browser = Browser::start();
    browser.open_file(&page);
    assert_eq!(browser.evaluate("document.querySelector('h1').textContent"), "phases, other");
    assert_eq!(browser.evaluate("document.querySelectorAll('section, input, select, button').length"), 1);
    let facts = browser.evaluate("document.getElementById('overview').textContent");
    assert!(facts.as_str().unwrap().contains("without reuse distances"), "{facts}");
    quiet(&browser, &[file_address(&page)]);
}

#[test]
fn files_of_the_same_name_are_told_apart() {
    let sandbox = run(&["2", "40"]);
    let long = format!("{}.bfp", "before-".repeat(8));
    for (number, folder) in ["a", "b $x"].iter().enumerate() {
        std::fs::create_dir(sandbox.file(folder)).unwrap();
        std::fs::rename(sandbox.file(&format!("{number}.bfp")), sandbox.file(folder).join(&long)).unwrap();
    }
    let [a, b] = ["a", "b $x"].map(|folder| format!("{folder}/{long}"));
    let page = report(&sandbox, &["--each", &a, &b, &b, "--cache", "L1=32K:8"]);
    let mut browser = Browser::start();
    browser.window(375, 800);
    browser.open_file(&page);
    let names = browser.evaluate("[...document.querySelectorAll('h1 bdi')].map((name) => name.textContent)");
    assert_eq!(names, json!([a, b, format!("{b} (2)")]));
    let curves = "[...document.querySelectorAll('#curves [aria-label=\"line\"] path')].map((path) => path.getAttribute('d').split(/[LC]/).length)";
    let points: Vec<u64> = serde_json::from_value(browser.evaluate(curves)).unwrap();
    assert!(points.len() == 3 && points.iter().all(|&other| other == points[0]), "{points:?}");
    let bars = "new Set([...document.querySelectorAll('#whatif [aria-label=\"bar\"] rect')].map((bar) => bar.getAttribute('y'))).size";
    assert_eq!(browser.evaluate(bars), 3);
    let command = browser.evaluate("document.getElementById('command').textContent");
    assert_eq!(command, format!("bf query --each {a} '{b}' '{b}' --cache L1=32K:8:private"));
    quiet(&browser, &[file_address(&page)]);
}

#[test]
fn lines_may_be_of_another_size_than_the_machines() {
    let sandbox = run(&[]);
    let mut program = sandbox.program("phases");
    let _ = succeed(program.arg("2").env("BF_PROFILE", sandbox.file("0.bfp")).env("BF_LINE_SIZE", "128"));
    let mut browser = Browser::start();
    browser.open_file(&report(&sandbox, &["0.bfp", "--cache", "L1=32K:8"]));
    // To six ways: what they can have of 32 K is in whole sets of 128-byte lines.
    browser.evaluate("document.querySelector('[data-level=\"L1\"] [data-control=\"ways\"]').focus()");
    browser.press("ArrowLeft");
    assert_eq!(agree(&sandbox, &mut browser, 0), ["L1=32.25K:6:private"]);

    browser.open_file(&report(&sandbox, &["0.bfp", "--machine", "skylake-sp"]));
    let refusal = browser.evaluate("document.querySelector('#result .refusal').textContent");
    assert!(refusal.as_str().unwrap().contains("line size 64 is not in the profile, which holds 128"), "{refusal}");
    browser.evaluate(
        "[...document.querySelectorAll('#levels select')].filter((select) => [...select.options].some((option) => option.value === '128'))
            .forEach((select) => { select.value = '128'; select.dispatchEvent(new Event('change')); })",
    );
    let caches = agree(&sandbox, &mut browser, 0);
    assert!(caches.len() == 3 && caches[0] == "L1=32K:8:128:private", "{caches:?}");
}

#[test]
fn it_can_be_read_in_the_dark_and_on_a_narrow_screen_and_used_by_keyboard() {
    let sandbox = run(&["2"]);
    let page = report(&sandbox, &["0.bfp", "--cache", "L1=32K:8"]);
    let mut browser = Browser::start();
    let look = "(() => { const style = getComputedStyle(document.querySelector('section'));
        const grey = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
        return [grey(style.backgroundColor), grey(style.color), document.querySelector('#curves svg').style.backgroundColor]; })()";
    let mut grounds = Vec::new();
    for (theme, dark) in [("light", false), ("dark", true)] {
        browser.prefer(theme);
        browser.open_file(&page);
        let seen = browser.evaluate(look);
        let (ground, ink) = (seen[0].as_f64().unwrap(), seen[1].as_f64().unwrap());
        assert!((ground - ink).abs() > 450.0 && (ground < ink) == dark, "{theme}: {seen}");
        grounds.push(seen[2].clone());
    }
    assert_ne!(grounds[0], grounds[1], "the plots follow the theme");
    // The theme may change while the page is open.
    browser.prefer("light");
    browser.until(&format!("document.querySelector('#curves svg').style.backgroundColor === {}", grounds[0]));

    // Every control and link can be reached in turn, from the link that skips to the report on.
    browser.evaluate("document.activeElement.blur()");
    let mut reached = Vec::new();
    for _ in 0..40 {
        browser.press("Tab");
        let at = browser.evaluate("(() => { const at = document.activeElement; return at.getAttribute('aria-label') ?? at.textContent.slice(0, 40); })()");
        reached.push(at.as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(reached[0], "Skip to the report");
    for control in
        ["What if", "L1 size", "L1 size, such as 48K", "L1 ways", "Add a level", "Miss ratio against cache size as SVG"]
    {
        assert!(reached.iter().any(|at| at == control), "{control}: {reached:?}");
    }
    // What is changed by keyboard keeps it.
    browser.until("document.querySelectorAll('#places-table tbody tr').length > 0");
    let sorts = "[...document.querySelectorAll('#places select')].find((select) => select.value === 'L1.misses')";
    browser.evaluate(&format!("window.sorts = {sorts}; sorts.focus()"));
    for sorted in ["L1.load_misses", "L1.store_misses"] {
        browser.press("ArrowDown");
        assert_eq!(browser.evaluate("document.activeElement === sorts && sorts.value"), sorted);
    }
    browser.evaluate("[...document.querySelectorAll('#whatif button')].find((button) => button.textContent === 'Add a level').click()");
    browser.evaluate("document.querySelector('[aria-label=\"Remove L1\"]').click()");
    assert_eq!(browser.evaluate("document.activeElement.getAttribute('aria-label')"), "L2 size");
    // A level that is added is called by what is above it.
    browser.evaluate("[...document.querySelectorAll('#whatif button')].find((button) => button.textContent === 'Add a level').click()");
    browser.evaluate("document.querySelector('[aria-label=\"Remove L2\"]').click()");
    browser.evaluate("[...document.querySelectorAll('#whatif button')].find((button) => button.textContent === 'Add a level').click()");
    let levels = "[...document.querySelectorAll('#levels legend')].map((level) => level.textContent)";
    assert_eq!(browser.evaluate(levels), json!(["L3", "L4"]));

    let nameless = "[...document.querySelectorAll('input, select, button, svg[role]')].filter((control) =>
        !(control.getAttribute('aria-label') || control.textContent.trim() || control.closest('label')?.textContent.trim())).length";
    assert_eq!(browser.evaluate(nameless), 0);
    let unheaded = "[...document.querySelectorAll('table')].filter((table) => table.querySelectorAll('th[scope=col]').length === 0).length";
    assert_eq!(browser.evaluate(unheaded), 0);

    for width in [360, 800] {
        browser.window(width, 800);
        browser.open_file(&page);
        let wide = browser.evaluate("document.documentElement.scrollWidth");
        assert!(wide.as_u64() <= Some(width.into()), "{wide} in {width}");
    }
}

#[test]
fn slices_of_time_are_phases() {
    let sandbox = run(&[]);
    let _ =
        succeed(sandbox.program("phases").arg("1").env("BF_PROFILE", sandbox.file("0.bfp")).env("BF_PHASES", "100K"));
    let page = report(&sandbox, &["0.bfp", "--cache", "L1=32K:8"]);
    let mut browser = Browser::start();
    browser.open_file(&page);
    browser.until("document.querySelectorAll('#tags tbody tr').length > 0");
    let rows = browser.evaluate(
        "[...document.querySelectorAll('#tags tbody tr')].map((row) => [row.cells[0].textContent, row.cells[1].textContent])",
    );
    let rows: Vec<(String, String)> = serde_json::from_value(rows).unwrap();
    let names: Vec<_> = rows.iter().map(|(name, _)| name.as_str()).collect();
    let lists = ["list", "list, phase 0", "list, phase 1", "list, phase 2"];
    let slices = ["phase 0", "phase 1", "phase 2", "no tag, phase 0"];
    assert_eq!(names, [&slices[..], &lists, &["rows", "rows, phase 0"]].concat());
    let references =
        |row: &(String, String)| -> u64 { row.1.split_whitespace().next().unwrap().replace(',', "").parse().unwrap() };
    assert_eq!(references(&rows[4]), 131_072);
    assert_eq!(rows[5..8].iter().map(references).sum::<u64>(), 131_072);
    let course = sandbox.bf(&["report", "0.bfp", "--by", "phase", "--cache", "L1=32K:8"]);
    let figure = |item: &Value, name: &str| item[name].as_u64().unwrap();
    let phases = course["items"].as_array().unwrap().iter();
    let phases: Vec<_> =
        phases.map(|item| figure(item, "load_references") + figure(item, "store_references")).collect();
    assert_eq!(rows[..3].iter().map(references).collect::<Vec<_>>(), phases);
    quiet(&browser, &[file_address(&page)]);
}

#[test]
fn the_page_begins_with_the_tags_asked_for() {
    let sandbox = run(&["2"]);
    let page = report(&sandbox, &["0.bfp", "--cache", "L1=32K:8", "--tag", "list"]);
    let mut browser = Browser::start();
    browser.open_file(&page);
    let misses = browser.evaluate("Number(document.querySelector('#answer [data-figure=misses]').dataset.value)");
    let asked = sandbox.bf(&["query", "0.bfp", "--cache", "L1=32K:8", "--tag", "list"]);
    assert_eq!(misses.as_f64(), asked["levels"][0]["misses"].as_f64());
    let command = browser.evaluate("document.getElementById('command').textContent");
    assert_eq!(command, "bf query 0.bfp --tag list --cache L1=32K:8:private");
    let sets =
        browser.evaluate("[...document.querySelectorAll('#sets tbody tr')].map((row) => row.cells[0].textContent)");
    let known = sandbox.bf(&["report", "0.bfp", "--tag", "list"])["knees"].as_array().unwrap().len();
    assert_eq!(sets.as_array().unwrap().len(), known, "{sets}");
    let mut unknown = sandbox.command(bf_tests::program("bf"));
    let refused = output(unknown.args(["report", "--html", "no.html", "--tag", "tea", "0.bfp"]));
    assert!(refused.status.code() == Some(1) && text(&refused.stderr).contains("no tag `tea`"), "{refused:?}");
}

#[test]
fn rows_are_sorted_by_figures_that_they_have() {
    let sandbox = Sandbox::new();
    sandbox.write("exchange.c", include_str!("../programs/exchange.c"));
    sandbox.bf_clang(["exchange.c", "-O1", "-g", "-bf-by-func", "-pthread", "-o", "exchange"]);
    let _ = succeed(sandbox.program("exchange").env("BF_PROFILE", sandbox.file("0.bfp")));
    let page = report(&sandbox, &["0.bfp", "--cache", "L1=32K:8", "--cache", "L2=1M:8:shared"]);
    let mut browser = Browser::start();
    browser.open_file(&page);
    browser.until("document.querySelectorAll('#places-table tbody tr').length > 0");
    let sorts = browser.evaluate(
        "[...[...document.querySelectorAll('#places select')].find((select) => select.value === 'L2.misses').options]
            .map((option) => option.value).filter((figure) => figure.endsWith('writebacks'))",
    );
    assert_eq!(sorts, json!(["L2.writebacks"]), "those of private caches of several threads have no place");
    let mut engine = Page::new();
    engine.load(&std::fs::read(sandbox.file("0.bfp")).unwrap());
    let question =
        json!({ "ask": "by", "profile": 0, "caches": ["L1=32K:8"], "by": "line", "sort": "L1.writebacks", "top": 1 });
    let refusal = engine.ask(question.to_string().as_bytes());
    assert!(refusal.contains("there is no figure `L1.writebacks`"), "{refusal}");
}

#[test]
fn long_names_lose_their_arguments() {
    let sandbox = run(&["1"]);
    let mut profile: Profile = bf_profile::read_file(sandbox.file("0.bfp")).unwrap();
    let places = &mut profile.processes[0].places;
    let long = format!("touch<{}int>(int)", "int, ".repeat(1000));
    let names: Vec<_> = places.functions.iter().map(|function| function.display as usize).collect();
    names.into_iter().for_each(|name| places.strings[name].clone_from(&long));
    bf_profile::write_file(sandbox.file("0.bfp"), &profile).unwrap();
    let page = report(&sandbox, &["0.bfp", "--cache", "L1=32K:8"]);
    let mut browser = Browser::start();
    browser.open_file(&page);
    browser.until("document.querySelectorAll('#places-table tbody tr').length > 0");
    let first = browser.evaluate("(() => { const name = document.querySelector('#places-table tbody bdi'); return [name.textContent, name.title]; })()");
    assert_eq!(first, json!(["touch<…>(…)", long]));
}

#[test]
fn a_place_is_on_one_line() {
    let sandbox = run(&["1"]);
    let mut profile: Profile = bf_profile::read_file(sandbox.file("0.bfp")).unwrap();
    let places = &mut profile.processes[0].places;
    // Of a length that nothing is left out of.
    places.strings.extend(["a_function_of_the_program_".repeat(3)[..70].to_owned(), "/bits/stl_tree.h".to_owned()]);
    let last = places.strings.len() as u32 - 1;
    for function in &mut places.functions {
        (function.display, function.file, function.line) = (last - 1, last, 2458);
    }
    bf_profile::write_file(sandbox.file("0.bfp"), &profile).unwrap();
    let page = report(&sandbox, &["0.bfp", "--cache", "L1=4K:2", "--cache", "L2=32K:8", "--cache", "L3=64K:8"]);
    let mut browser = Browser::start();
    for width in [1280, 360] {
        browser.window(width, 800);
        browser.open_file(&page);
        browser.until("document.querySelectorAll('#places-table td:nth-child(2) button').length > 0");
        let first = browser.evaluate("(() => { const place = document.querySelector('#places-table td:nth-child(2)');
            const range = document.createRange(); range.selectNodeContents(place.querySelector('bdi'));
            return [place.textContent, range.getClientRects().length, range.getBoundingClientRect().right <= place.getBoundingClientRect().right]; })()");
        assert_eq!(first, json!(["bits/stl_tree.h:2458", 1, true]), "{width}");
    }
}

#[test]
fn the_machine_it_ran_on_is_offered_beside_the_caches_asked_for() {
    let sandbox = run(&["1"]);
    let mut profile: Profile = bf_profile::read_file(sandbox.file("0.bfp")).unwrap();
    let mut write = |caches: Vec<CacheLevel>| {
        let machine = &mut profile.processes[0].machine;
        (machine.cpu, machine.caches) = ("a processor".to_owned(), caches);
        bf_profile::write_file(sandbox.file("0.bfp"), &profile).unwrap();
    };
    let near = CacheLevel { level: 1, size: 48 << 10, ways: 12, line: 64, ..CacheLevel::default() };
    write(vec![near]);
    let mut browser = Browser::start();
    for (asked, offered) in [
        (&["--cache", "L1=4K:2"][..], &["the caches asked for", "the machine it ran on: a processor"][..]),
        (&[], &["the machine it ran on: a processor"]),
    ] {
        browser.open_file(&report(&sandbox, &[&["0.bfp"], asked].concat()));
        let first = "[...document.querySelector('#whatif select').options].slice(1).map((option) => option.text)
            .filter((machine) => machine.startsWith('the '))";
        assert_eq!(browser.evaluate(first), json!(offered));
    }
    assert_eq!(agree(&sandbox, &mut browser, 0), ["L1=48K:12:64:private"]);

    // Once for each profile it is said what stands in.
    write(Vec::new());
    for (each, times) in [(&["0.bfp"][..], 1), (&["--each", "0.bfp", "0.bfp"], 2)] {
        let mut command = sandbox.command(bf_tests::program("bf"));
        let said = succeed(command.args(["report", "--html", "report.html"]).args(each)).stderr;
        assert_eq!(text(&said).matches("does not say what caches it ran on").count(), times, "{}", text(&said));
    }
}

/// Names that a page must show as they are.
const HOSTILE: [&str; 5] = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror=\"window.hacked = 1\">",
    "'\"`${window.hacked = 1}`&lt;\\",
    "\u{202e}gnp.elpmaxe",
    "{{data}}{{script}}<!--",
];

#[test]
fn names_are_text_whatever_they_say() {
    let sandbox = run(&["1"]);
    let mut profile: Profile = bf_profile::read_file(sandbox.file("0.bfp")).unwrap();
    let process = &mut profile.processes[0];
    process.meta.executable = HOSTILE[1].to_owned();
    process.meta.command = HOSTILE.map(str::to_owned).to_vec();
    process.meta.host = HOSTILE[1].to_owned();
    process.machine.cpu = HOSTILE[2].to_owned();
    let callee = |number: u64| Callee { name: format!("f{number}"), calls: 10 - number };
    process.uninstrumented = (0..9).map(callee).collect();
    process.log = HOSTILE.map(str::to_owned).to_vec();
    process.tags[1..].iter_mut().zip(HOSTILE).for_each(|(tag, name)| *tag = name.to_owned());
    let strings = process.places.strings.len();
    process.places.strings[1..]
        .iter_mut()
        .zip(HOSTILE.iter().cycle().take(strings))
        .for_each(|(string, name)| *string = (*name).to_owned());
    bf_profile::write_file(sandbox.file("0.bfp"), &profile).unwrap();
    let page = report(&sandbox, &["0.bfp", "--cache", "L1=32K:8"]);
    let mut browser = Browser::start();
    browser.open_file(&page);
    browser.until("document.querySelectorAll('#places-table tbody tr').length > 0");
    assert_eq!(browser.evaluate("window.hacked ?? null"), Value::Null);
    assert_eq!(browser.evaluate("document.querySelectorAll('main img, main script, header script').length"), 0);
    assert_eq!(browser.evaluate("document.querySelector('h1 bdi').textContent"), HOSTILE[1]);
    assert_eq!(browser.evaluate("document.querySelector('.facts bdi').textContent"), HOSTILE.join(" "));
    let facts = browser.evaluate("document.querySelector('.facts').textContent");
    assert!(
        facts.as_str().unwrap().contains("f0 10, f1 9, f2 8, f3 7, f4 6, f5 5, f6 4, f7 3, 1 more function"),
        "{facts}"
    );
    let rows = browser.evaluate("[...document.querySelectorAll('#places-table tbody th bdi, #tags tbody th bdi')].map((name) => name.textContent)");
    let rows = rows.as_array().unwrap();
    assert!(rows.iter().filter(|row| HOSTILE.contains(&row.as_str().unwrap())).count() >= 3, "{rows:?}");
    quiet(&browser, &[file_address(&page)]);
}
