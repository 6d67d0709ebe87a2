//! The layering: a room uses only rooms listed before it. Reads the sources, so it holds for every
//! target and feature at once.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// From the ground up.
const ROOMS: &[&str] = &[
    "primitives",
    "util",
    "stack",
    "context",
    "fiber",
    "driver",
    "scheduler",
    "park",
    "cancel",
    "runtime",
    "time",
    "thread",
    "sync",
    "channel",
    "scope",
    "io",
    "net",
    "signal",
    "metrics",
];

/// What the crate's root exports of a room by its own name.
const EXPORTS: &[(&str, &str)] = &[
    ("cancelled", "cancel"),
    ("blocking", "park"),
    ("JoinHandle", "runtime"),
    ("go", "runtime"),
    ("run", "runtime"),
    ("yield_now", "runtime"),
    ("join", "scope"),
    ("race", "scope"),
    ("StackError", "stack"),
    ("current", "thread"),
    ("sleep", "time"),
    ("timeout", "time"),
];

/// What only some files may contain, and which.
const CONFINED: &[(&str, &[&str])] = &[
    ("mio::", &["driver/", "net/", "signal/"]),
    ("thread_local!", &["fiber/tls.rs", "fiber/seat_word_any.rs"]),
    ("Instant::now", &["primitives/", "time/"]),
    ("std::sync::atomic", &["primitives/"]),
    ("parking_lot::", &["primitives/"]),
    ("loom::", &["primitives/"]),
    ("asm!", &["primitives/", "context/", "fiber/tls.rs", "fiber/seat_word"]),
];

const LONGEST_FILE: usize = 500;
/// Of a comment; rustfmt sees to the code. Rows of tables cannot be broken.
const WIDEST_COMMENT: usize = 120;

struct Source {
    path: String,
    /// Without comments and tests.
    code: String,
    lines: usize,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    assert!(files.len() > 50, "the sources are not where this test looks");
    files.iter().map(|file| read(&root, file)).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn read(root: &Path, file: &Path) -> Source {
    let text = fs::read_to_string(file).unwrap();
    let path = file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    Source { path, code: own_code(&text), lines: text.lines().count() }
}

/// Without comments, and up to the tests' module: what is for tests alone before that is an item or a field.
fn own_code(text: &str) -> String {
    let mut code = Vec::new();
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with("//")).peekable();
    while let Some(line) = lines.next() {
        let for_tests = line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
        if for_tests && lines.peek().is_some_and(|next| next.starts_with("use ")) {
            lines.next();
        } else if for_tests
            && lines.peek().is_some_and(|next| next.starts_with("mod ") && next.ends_with('{'))
        {
            break;
        } else {
            code.push(line);
        }
    }
    code.join("\n")
}

fn is_test(source: &Source) -> bool {
    source.path.contains("tests") || source.path.contains("models")
}

/// The rooms that a source names after `crate::`.
fn used(code: &str) -> BTreeSet<String> {
    let mut rooms = BTreeSet::new();
    // What a macro names is named where it is used.
    let code = code.replace("$crate::", "");
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(list) => {
                let list = list.split(';').next().unwrap();
                rooms.extend(list.split(['{', '}', ',']).map(first_word));
            }
            None => {
                rooms.insert(first_word(rest));
            }
        }
    }
    for (export, room) in EXPORTS {
        if rooms.contains(*export) {
            rooms.insert((*room).to_owned());
        }
    }
    rooms.retain(|room| ROOMS.contains(&room.as_str()));
    rooms
}

fn first_word(text: &str) -> String {
    text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[test]
fn rooms_use_only_what_lies_below() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !is_test(source)) {
        let Some((room, _)) = source.path.split_once('/') else { continue };
        let Some(level) = ROOMS.iter().position(|name| *name == room) else {
            wrong.push(format!("{}: the room `{room}` has no place in the layers", source.path));
            continue;
        };
        for other in used(&source.code) {
            let above = ROOMS.iter().position(|name| *name == other).unwrap();
            if above > level {
                wrong
                    .push(format!("{}: `{room}` uses `{other}`, which lies above it", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_confined_stays_where_it_belongs() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !is_test(source)) {
        for (what, places) in CONFINED {
            let allowed = places.iter().any(|place| source.path.starts_with(place));
            if !allowed && source.code.contains(what) {
                wrong.push(format!("{}: `{what}` belongs in {places:?}", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_are_short_and_say_what_they_are() {
    for source in sources() {
        assert!(source.lines <= LONGEST_FILE, "{}: {} lines", source.path, source.lines);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(&source.path);
        let text = fs::read_to_string(root).unwrap();
        assert!(text.starts_with("//!"), "{}: opens without its purpose", source.path);
        for line in text.lines().filter(|line| line.trim_start().starts_with("//")) {
            let is_row = line.trim_start().trim_start_matches(['/', '!', ' ']).starts_with('|');
            let width = line.chars().count();
            assert!(is_row || width <= WIDEST_COMMENT, "{}: {width} columns: {line}", source.path);
        }
    }
}

#[test]
fn lib_has_nothing_but_modules_and_exports() {
    let lib = sources().into_iter().find(|source| source.path == "lib.rs").unwrap();
    for line in lib.code.lines().filter(|line| !line.trim().is_empty()) {
        let known = ["mod ", "pub mod ", "pub use ", "#[", "#![", "}", "    "];
        assert!(known.iter().any(|start| line.starts_with(start)), "lib.rs: {line}");
    }
}

#[test]
fn the_scan_sees_what_it_should() {
    let rooms = used("use crate::park::Wait; use crate::{cancel, fiber::{self, X}, stack};");
    let expected = ["cancel", "fiber", "park", "stack"].map(str::to_owned);
    assert_eq!(rooms, BTreeSet::from(expected));
    assert_eq!(used("crate::go(f)"), BTreeSet::from(["runtime".to_owned()]));
    let text = "a\n// b\n#[cfg(test)]\nuse crate::sync::C;\n    #[cfg(test)]\n    d: u8,\n\
        #[cfg(test)]\nfn e() {}\nf\n#[cfg(all(test, not(loom)))]\nmod tests {\n    g\n}\n";
    let own: Vec<_> = own_code(text).lines().map(str::trim).map(str::to_owned).collect();
    assert_eq!(own, ["a", "#[cfg(test)]", "d: u8,", "#[cfg(test)]", "fn e() {}", "f"]);
}
