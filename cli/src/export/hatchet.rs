//! Hatchet's "literal" format (`hatchet.GraphFrame.from_literal`): a forest of the functions that were compiled, below each
//! what was inlined into it, below that the lines.

use crate::failure::Failure;
use bf_postproc::{
    attribution::{Attribution, Figures},
    source::frames,
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, io::Write};

/// A function, or a line of one.
#[derive(Debug, Default)]
struct Node {
    /// What is attributed to it and to nothing below it.
    own: Option<Figures>,
    below: BTreeMap<(String, String, u32), Self>,
}

/// Writes the forest.
pub fn write(attribution: &Attribution<'_>, to: &mut dyn Write) -> Result<(), Failure> {
    let mut root = Node::default();
    for part in &attribution.parts {
        let mut at = &mut root;
        for frame in frames(part).into_iter().rev() {
            at = at.below.entry((frame.function.clone(), String::new(), 0)).or_default();
            at = at.below.entry((frame.function, frame.file, frame.line)).or_default();
        }
        match &mut at.own {
            Some(own) => own.add(&part.figures),
            none => *none = Some(part.figures.clone()),
        }
    }
    if let Some(own) = root.own.take() {
        let unknown = (bf_postproc::attribution::UNKNOWN.to_owned(), String::new(), 0);
        root.below.insert(unknown, Node { own: Some(own), below: BTreeMap::new() });
    }
    let forest: Vec<_> = root.below.iter().map(|(key, node)| node_json(key, node, attribution).0).collect();
    serde_json::to_writer_pretty(&mut *to, &forest)?;
    Ok(writeln!(to)?)
}

/// A node, and what is attributed to it and below.
fn node_json(
    (function, file, line): &(String, String, u32),
    node: &Node,
    attribution: &Attribution<'_>,
) -> (Value, Figures) {
    let none = || Figures::none(attribution.answer.levels.len());
    let own = node.own.clone().unwrap_or_else(none);
    let mut all = own.clone();
    let mut children = Vec::new();
    for (key, below) in &node.below {
        let (child, figures) = node_json(key, below, attribution);
        children.push(child);
        all.add(&figures);
    }
    let mut metrics: Map<String, Value> = attribution.named(&own).map(|(name, count)| (name, count.into())).collect();
    let inclusive = attribution.named(&all).map(|(name, count)| (format!("{name} (inc)"), count.into()));
    metrics.extend(inclusive);
    let frame = if file.is_empty() {
        json!({"name": function, "type": "function"})
    } else {
        json!({"name": format!("{function} {file}:{line}"), "type": "statement", "file": file, "line": line})
    };
    (json!({"frame": frame, "metrics": metrics, "children": children}), all)
}
