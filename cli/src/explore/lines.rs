//! A hierarchy as a line of JSON, and as a row of a table.

use super::search::Question;
use crate::columns::{Cell, Column, Kind};
use bf_postproc::{
    LevelAnswer,
    explore::{objective::Figures, search::Found, study::Doubled},
};
use serde::Serialize;
use serde_json::{Map, Number, Value};

/// A hierarchy with every figure, schema `bf.explore/1`.
#[derive(Serialize)]
pub struct Line<'a> {
    schema: &'static str,
    /// Its number in the space.
    index: u64,
    levels: &'a [LevelAnswer],
    objective: Value,
    /// What the objective is called.
    objective_name: String,
    /// The other figures that were asked about: budgets, and the objectives of a front.
    #[serde(skip_serializing_if = "Map::is_empty")]
    costs: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    doubled: Option<Vec<Doubled>>,
}

impl<'a> Line<'a> {
    pub fn new(
        question: &Question<'_>,
        found: &Found,
        levels: &'a [LevelAnswer],
        doubled: Option<Vec<Doubled>>,
    ) -> Self {
        let asked = question.asked;
        let budgets = question.goal.budgets.iter().zip(&found.costs);
        let mut costs: Map<String, Value> =
            budgets.map(|(budget, cost)| (budget.name.clone(), number(*cost, false))).collect();
        for (objective, value) in asked.pareto.iter().zip(&found.front) {
            costs.insert(objective.to_string(), number(*value, objective.is_count()));
        }
        Self {
            schema: "bf.explore/1",
            index: found.index,
            levels,
            objective: found.objective.map_or(Value::Null, |value| number(value, asked.objective.is_count())),
            objective_name: asked.objective.to_string(),
            costs,
            doubled,
        }
    }
}

/// A figure; of things that are counted a whole number.
fn number(value: f64, count: bool) -> Value {
    if count { Value::from(value as u64) } else { Number::from_f64(value).map_or(Value::Null, Value::Number) }
}

/// Hierarchies as rows: their number, what was asked about, and the figures of each level.
pub struct Rows<'a> {
    question: &'a Question<'a>,
    /// What was asked about: name, and where a found hierarchy has it.
    asked: Vec<(String, Asked)>,
}

enum Asked {
    Objective,
    Budget(usize),
    Front(usize),
}

impl<'a> Rows<'a> {
    pub fn new(question: &'a Question<'a>) -> Self {
        let budgets = question.goal.budgets.iter().enumerate();
        let front = question.asked.pareto.iter().enumerate();
        let mut asked = vec![(question.asked.objective.to_string(), Asked::Objective)];
        asked.extend(budgets.map(|(at, budget)| (budget.name.clone(), Asked::Budget(at))));
        asked.extend(front.map(|(at, objective)| (objective.to_string(), Asked::Front(at))));
        // A budget may be the objective too.
        let names: Vec<String> = asked.iter().map(|(name, _)| name.clone()).collect();
        let mut at = 0..names.len();
        asked.retain(|(name, _)| at.next().is_some_and(|at| !names[..at].contains(name)));
        Self { question, asked }
    }

    /// Names and kinds of the columns.
    pub fn columns(&self) -> Vec<Column> {
        let mut columns = vec![("hierarchy".to_owned(), Kind::Integer)];
        columns.extend(self.asked.iter().map(|(name, _)| (name.clone(), Kind::Float)));
        let integers =
            ["size_bytes", "ways", "line_bytes", "sets", "references", "misses", "writebacks", "traffic_bytes"];
        for name in self.question.space.names() {
            columns.push((format!("{name}_scope"), Kind::Text));
            columns.extend(integers.map(|figure| (format!("{name}_{figure}"), Kind::Integer)));
        }
        columns
    }

    /// The cells of one.
    pub fn row(&self, found: &Found, picks: &[usize], figures: &[Figures]) -> Vec<Cell> {
        let mut row = vec![Cell::from(found.index)];
        let value = |(_, asked): &(String, Asked)| match *asked {
            Asked::Objective => found.objective.map_or(Cell::Null, Cell::Float),
            Asked::Budget(at) => Cell::Float(found.costs[at]),
            Asked::Front(at) => Cell::Float(found.front[at]),
        };
        row.extend(self.asked.iter().map(value));
        for (level, (&pick, figures)) in picks.iter().zip(figures).enumerate() {
            let shape = self.question.space.shape(level, pick);
            row.push(Cell::Text(shape.scope.to_string()));
            row.extend([shape.size, shape.ways, u64::from(shape.line), shape.sets].map(Cell::from));
            row.extend([figures.accesses, figures.misses].map(Cell::from));
            row.extend([figures.writebacks, figures.traffic()].map(Cell::from));
        }
        row
    }
}
