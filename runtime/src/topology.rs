//! The machine and its caches, as the kernel describes them.

use bf_profile::{CacheKind, CacheLevel, Machine};
use std::fs;

const CPU: &str = "/sys/devices/system/cpu";

/// The machine this process runs on; what the kernel does not say is left empty.
pub fn machine() -> Machine {
    Machine { cpu: cpu_model(), cpus: online(), caches: caches(CPU) }
}

fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim().to_owned()).unwrap_or_default()
}

fn online() -> u32 {
    fs::read_to_string(format!("{CPU}/online")).map_or(0, |list| count(&list))
}

/// Directories `index0`, `index1`, ... are tried one after the other: listing a directory would call the program's
/// `malloc`.
fn caches(cpu: &str) -> Vec<CacheLevel> {
    (0..).map_while(|index| cache(&format!("{cpu}/cpu0/cache/index{index}"))).collect()
}

fn cache(directory: &str) -> Option<CacheLevel> {
    let read = |name: &str| fs::read_to_string(format!("{directory}/{name}")).ok().map(|text| text.trim().to_owned());
    let number = |name: &str| read(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    Some(CacheLevel {
        level: read("level")?.parse().ok()?,
        kind: match read("type")?.as_str() {
            "Data" => CacheKind::Data,
            "Instruction" => CacheKind::Instruction,
            _ => CacheKind::Unified,
        },
        size: bytes(&read("size").unwrap_or_default()),
        ways: number("ways_of_associativity"),
        line: number("coherency_line_size"),
        sets: number("number_of_sets"),
        shared_by: count(&read("shared_cpu_list").unwrap_or_default()),
    })
}

/// "48K" or "36608K" or "1M"; 0 for anything else.
fn bytes(text: &str) -> u64 {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => 0,
    };
    digits.parse::<u64>().unwrap_or(0) * unit
}

/// How many a list such as "0-3,8" names.
fn count(list: &str) -> u32 {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(last.parse::<u32>().ok()?.checked_sub(first.parse().ok()?)? + 1)
    };
    list.trim().split(',').filter_map(range).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_notation() {
        assert_eq!((count("0-3,8\n"), count("5"), count("")), (5, 1, 0));
        assert_eq!((bytes("48K"), bytes("1M"), bytes("512"), bytes("")), (49152, 1 << 20, 512, 0));
    }

    #[test]
    fn a_cache_directory_is_read() {
        let root = tempfile::tempdir().unwrap();
        let index = root.path().join("cpu0/cache/index0");
        fs::create_dir_all(&index).unwrap();
        let files = [
            ("level", "2"),
            ("type", "Unified"),
            ("size", "1024K"),
            ("ways_of_associativity", "16"),
            ("coherency_line_size", "64"),
            ("number_of_sets", "1024"),
            ("shared_cpu_list", "0-1"),
        ];
        for (name, value) in files {
            fs::write(index.join(name), format!("{value}\n")).unwrap();
        }
        let want = CacheLevel {
            level: 2,
            kind: CacheKind::Unified,
            size: 1 << 20,
            ways: 16,
            line: 64,
            sets: 1024,
            shared_by: 2,
        };
        assert_eq!(caches(root.path().to_str().unwrap()), [want]);
    }
}
