//! Miss ratios as curves over size, as SVG.

use crate::{
    failure::Failure,
    input::Loaded,
    output::{check_writable, number, write_file},
    sweep::series,
};
use bf_postproc::{size, sweep::Point};
use plotters::{
    coord::ranged1d::{AsRangedCoord, ValueFormatter},
    prelude::{
        ChartBuilder, Circle, IntoDrawingArea, IntoLogRange, LineSeries, PathElement, SVGBackend, TRANSPARENT, WHITE,
    },
    style::{BLACK, Color, Palette, Palette99, RGBColor},
};
use std::path::Path;

/// Pixels.
const SIZE: (u32, u32) = (960, 600);
/// Pixels of a line in the legend.
const LEGEND: u32 = 30;
/// Labels that fit beside each other below the plot.
const MOST_LABELS: usize = 14;
const GREY: RGBColor = RGBColor(225, 225, 225);

/// Whether a plot can be written under this name.
pub fn check(path: &Path) -> Result<(), Failure> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => check_writable(path),
        _ => Err(Failure::Usage(format!("{} does not end in .svg, the one format plots have", path.display()))),
    }
}

/// Refuses to draw several profiles, of which one would be left.
pub fn check_single(all: &[Loaded]) -> Result<(), Failure> {
    match all.len() {
        0 | 1 => Ok(()),
        _ => Err(Failure::Usage("--plot draws one profile; leave --each out, or ask one at a time".to_owned())),
    }
}

/// Draws one curve per associativity (and line size, if there are several), size on a logarithmic axis.
pub fn curves(path: &Path, title: &str, points: &[Point]) -> Result<(), Failure> {
    let drawing = draw(title, points).map_err(|error| Failure::file("draw", path, error))?;
    write_file(path, drawing)
}

/// Draws one curve per level: miss ratios, by how many references the program had made.
pub fn over_time(path: &Path, title: &str, curves: Vec<Curve>) -> Result<(), Failure> {
    let drawing = draw_over_time(title, &curves).map_err(|error| Failure::file("draw", path, error))?;
    write_file(path, drawing)
}

fn draw_over_time(title: &str, curves: &[Curve]) -> Result<String, String> {
    let end = curves.iter().flat_map(|(_, curve)| curve).map(|at| at.0).fold(f64::NAN, f64::max);
    if end.is_nan() {
        return Err("no cache could be asked about".to_owned());
    }
    // A slice's ratio holds from its beginning to its end.
    let steps = |curve: &[(f64, f64)]| {
        let begins = [0.0].into_iter().chain(curve.iter().map(|at| at.0));
        begins.zip(curve).flat_map(|(begin, &(end, ratio))| [(begin, ratio), (end, ratio)]).collect()
    };
    let curves: Vec<Curve> = curves.iter().map(|(name, curve)| (name.clone(), steps(curve))).collect();
    let axes = Axes { x: "references", y: "misses per reference", labels: 11, format: number, dots: false };
    render(title, &axes, 0.0..end.max(1.0), &curves)
}

/// A share, with as many digits as an axis up to `top` needs.
fn percent_of_axis(share: f64, top: f64) -> String {
    format!("{:.*} %", if top < 0.02 { 3 } else { usize::from(top < 0.2) }, share * 100.0)
}

/// A curve: its name, and points: a size, or the end of a slice of time, and the miss ratio there, in order.
pub type Curve = (String, Vec<(f64, f64)>);

fn collect(points: &[Point]) -> Vec<Curve> {
    let several = points.iter().any(|point| point.line_bytes != points[0].line_bytes);
    let mut curves: Vec<Curve> = Vec::new();
    for point in points {
        let Some(ratio) = point.miss_ratio else { continue };
        let name = if several { format!("{}, line {}", series(point), point.line_bytes) } else { series(point) };
        let at = (point.size_bytes as f64, ratio);
        match curves.iter_mut().find(|(other, _)| *other == name) {
            Some((_, curve)) => curve.push(at),
            None => curves.push((name, vec![at])),
        }
    }
    for (_, curve) in &mut curves {
        curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    curves
}

fn draw(title: &str, points: &[Point]) -> Result<String, String> {
    let curves = collect(points);
    let all = || curves.iter().flat_map(|(_, curve)| curve);
    if all().next().is_none() {
        return Err("no cache of the sweep could be asked about".to_owned());
    }
    // Whole octaves, at least one.
    let least = all().map(|at| at.0).fold(f64::INFINITY, f64::min).log2().floor();
    let greatest = all().map(|at| at.0).fold(0.0, f64::max).log2().ceil().max(least + 1.0);
    let labels = ((greatest - least) as usize).min(MOST_LABELS);
    let axes = Axes { x: "cache size", y: "miss ratio", labels, format: size::format, dots: true };
    render(title, &axes, (least.exp2()..greatest.exp2()).log_scale().base(2.0), &curves)
}

/// What the axes are, and how curves are drawn.
struct Axes {
    x: &'static str,
    y: &'static str,
    /// About so many labels along x.
    labels: usize,
    /// A label along x.
    format: fn(u64) -> String,
    /// Whether points stand out.
    dots: bool,
}

/// Draws curves of shares over `x`.
fn render<X>(title: &str, axes: &Axes, x: X, curves: &[Curve]) -> Result<String, String>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let top = curves.iter().flat_map(|(_, curve)| curve).map(|at| at.1).fold(0.0, f64::max).max(1e-6) * 1.05;
    let mut svg = String::new();
    let render = |svg: &mut String| -> Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 20))
            .margin(20)
            .x_label_area_size(50)
            .y_label_area_size(70)
            .build_cartesian_2d(x, 0.0..top)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GREY)
            .x_labels(axes.labels)
            .x_desc(axes.x)
            .y_desc(axes.y)
            .label_style(("sans-serif", 15))
            .x_label_formatter(&|x| (axes.format)(x.round() as u64))
            .y_label_formatter(&|y| percent_of_axis(*y, top))
            .draw()?;
        for (index, (name, curve)) in curves.iter().enumerate() {
            let colour = Palette99::pick(index).to_rgba();
            chart
                .draw_series(LineSeries::new(curve.iter().copied(), colour.stroke_width(2)))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], colour.stroke_width(2)));
            if axes.dots {
                chart.draw_series(curve.iter().map(|&at| Circle::new(at, 3, colour.filled())))?;
            }
        }
        chart
            .configure_series_labels()
            .position(plotters::chart::SeriesLabelPosition::UpperRight)
            .legend_area_size(LEGEND)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 15))
            .draw()?;
        area.present()?;
        Ok(())
    };
    render(&mut svg).map_err(|error| error.to_string())?;
    Ok(svg)
}
