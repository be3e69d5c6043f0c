//! Hatchet's "literal" format (`hatchet.GraphFrame.from_literal`).

use super::forest::{Forest, Kind, Node};
use crate::failure::Failure;
use serde_json::{Map, Value, json};
use std::io::Write;

/// Writes the trees.
pub fn write(forest: &Forest, to: &mut dyn Write) -> Result<(), Failure> {
    let trees: Vec<_> = forest.root.below.iter().map(|(kind, node)| tree(kind, node, &forest.figures)).collect();
    serde_json::to_writer_pretty(&mut *to, &trees)?;
    Ok(writeln!(to)?)
}

fn tree(kind: &Kind, node: &Node, figures: &[String]) -> Value {
    let names = || figures.iter().cloned();
    let own = names().zip(node.own.iter().copied().map(Value::from));
    let all = names().map(|name| name + " (inc)").zip(node.all.iter().copied().map(Value::from));
    let metrics: Map<String, Value> = own.chain(all).collect();
    let frame = match kind {
        Kind::Function { name, .. } | Kind::Inlined(name) => json!({"name": name, "type": "function"}),
        Kind::Line(frame) => {
            let name = format!("{} {}:{}", frame.function, frame.file, frame.line);
            json!({"name": name, "type": "statement", "file": frame.file, "line": frame.line})
        }
    };
    let children: Vec<_> = node.below.iter().map(|(kind, node)| tree(kind, node, figures)).collect();
    json!({"frame": frame, "metrics": metrics, "children": children})
}
