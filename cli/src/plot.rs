//! Miss ratios as curves over size, as SVG.

use crate::{failure::Failure, output::number, sweep::series};
use bf_postproc::{size, sweep::Point};
use plotters::{
    prelude::{
        ChartBuilder, Circle, IntoDrawingArea, IntoLogRange, LineSeries, PathElement, SVGBackend, TRANSPARENT, WHITE,
    },
    style::{BLACK, Color, Palette, Palette99, RGBColor},
};
use std::{fs, path::Path};

/// Pixels.
const SIZE: (u32, u32) = (960, 600);
/// Labels that fit beside each other below the plot.
const MOST_LABELS: usize = 14;
const GREY: RGBColor = RGBColor(225, 225, 225);

/// Whether a plot can be written under this name.
pub fn check(path: &Path) -> Result<(), Failure> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => Ok(()),
        _ => Err(Failure::Usage(format!("{} does not end in .svg, the one format plots have", path.display()))),
    }
}

/// Draws one curve per associativity (and line size, if there are several), size on a logarithmic axis.
pub fn curves(path: &Path, title: &str, points: &[Point]) -> Result<(), Failure> {
    let drawing = draw(title, points).map_err(|error| Failure::file("draw", path, error))?;
    fs::write(path, drawing).map_err(|error| Failure::file("write", path, error))
}

/// Draws one curve per level: miss ratios, by how many references the program had made.
pub fn over_time(path: &Path, title: &str, curves: Vec<Curve>) -> Result<(), Failure> {
    let drawing = draw_over_time(title, &curves).map_err(|error| Failure::file("draw", path, error))?;
    fs::write(path, drawing).map_err(|error| Failure::file("write", path, error))
}

fn draw_over_time(title: &str, curves: &[Curve]) -> Result<String, String> {
    let all = || curves.iter().flat_map(|(_, curve)| curve);
    if all().next().is_none() {
        return Err("no cache could be asked about".to_owned());
    }
    let end = all().map(|at| at.0).fold(1.0, f64::max);
    let top = all().map(|at| at.1).fold(0.0, f64::max).max(1e-6) * 1.05;
    let mut svg = String::new();
    let render = |svg: &mut String| -> Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 20))
            .margin(20)
            .x_label_area_size(50)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..end, 0.0..top)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GREY)
            .x_desc("references")
            .y_desc("misses per reference")
            .label_style(("sans-serif", 15))
            .x_label_formatter(&|x| number(x.round() as u64))
            .y_label_formatter(&|y| percent_of_axis(*y, top))
            .draw()?;
        for (index, (name, curve)) in curves.iter().enumerate() {
            let colour = Palette99::pick(index).to_rgba();
            // A slice's ratio holds from its beginning to its end.
            let mut begin = 0.0;
            let steps = curve.iter().flat_map(|&(end, ratio)| {
                let from = std::mem::replace(&mut begin, end);
                [(from, ratio), (end, ratio)]
            });
            chart
                .draw_series(LineSeries::new(steps, colour.stroke_width(2)))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], colour.stroke_width(2)));
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

/// A share, with as many digits as an axis up to `top` needs.
fn percent_of_axis(share: f64, top: f64) -> String {
    format!("{:.*} %", if top < 0.02 { 3 } else { usize::from(top < 0.2) }, share * 100.0)
}

/// A curve: its name, and (size, miss ratio) by size.
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
    let top = all().map(|at| at.1).fold(0.0, f64::max).max(1e-6) * 1.05;
    let mut svg = String::new();
    let render = |svg: &mut String| -> Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 20))
            .margin(20)
            .x_label_area_size(50)
            .y_label_area_size(70)
            .build_cartesian_2d((least.exp2()..greatest.exp2()).log_scale().base(2.0), 0.0..top)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GREY)
            .x_labels(labels)
            .x_desc("cache size")
            .y_desc("miss ratio")
            .label_style(("sans-serif", 15))
            .x_label_formatter(&|x| size::format(x.round() as u64))
            .y_label_formatter(&|y| percent_of_axis(*y, top))
            .draw()?;
        for (index, (name, curve)) in curves.iter().enumerate() {
            let colour = Palette99::pick(index).to_rgba();
            chart
                .draw_series(LineSeries::new(curve.iter().copied(), colour.stroke_width(2)))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], colour.stroke_width(2)));
            chart.draw_series(curve.iter().map(|&at| Circle::new(at, 3, colour.filled())))?;
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

/// Pixels of a line in the legend.
const LEGEND: u32 = 30;
