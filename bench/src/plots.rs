//! Curves as SVG.

use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::{
    ChartBuilder, Circle, IntoDrawingArea, IntoLogRange, LineSeries, PathElement, SVGBackend, WHITE,
};
use plotters::style::{BLACK, Color, Palette, Palette99, RGBColor};
use std::path::Path;

/// A name, and points by ascending x.
pub type Curve = (String, Vec<(f64, f64)>);

/// What a picture shows.
pub struct Plot<'a> {
    /// File name without its ending.
    pub file: &'a str,
    /// What stands above it.
    pub title: &'a str,
    /// The horizontal axis.
    pub x: &'a str,
    /// The vertical axis, from 0 up.
    pub y: &'a str,
    /// Whether x is shown by powers of two.
    pub log: bool,
    /// The label of a value of x.
    pub label: fn(f64) -> String,
}

/// Pixels.
const SIZE: (u32, u32) = (800, 480);
const GREY: RGBColor = RGBColor(225, 225, 225);
const FONT: (&str, i32) = ("sans-serif", 15);
/// Labels on the horizontal axis.
const LABELS: usize = 12;

impl Plot<'_> {
    /// Writes the picture.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, folder: &Path, curves: &[Curve]) -> Result<()> {
        let all = || curves.iter().flat_map(|(_, curve)| curve);
        let least = all().map(|at| at.0).fold(f64::INFINITY, f64::min);
        let greatest = all().map(|at| at.0).fold(0.0, f64::max);
        let mut svg = String::new();
        if self.log {
            self.draw(&mut svg, curves, (least..greatest).log_scale().base(2.0))
        } else {
            self.draw(&mut svg, curves, least..greatest)
        }
        .map_err(|error| anyhow!("failed to draw {}: {error}", self.file))?;
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join(self.file).with_extension("svg"), svg)?;
        Ok(())
    }

    fn draw<X>(&self, svg: &mut String, curves: &[Curve], x: X) -> Result<(), Box<dyn std::error::Error>>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let top = curves.iter().flat_map(|(_, curve)| curve).map(|at| at.1).fold(0.0, f64::max) * 1.1;
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, ("sans-serif", 18))
            .margin(15)
            .x_label_area_size(45)
            .y_label_area_size(60)
            .build_cartesian_2d(x, 0.0..top)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(GREY)
            .x_labels(LABELS)
            .x_desc(self.x)
            .y_desc(self.y)
            .label_style(FONT)
            .x_label_formatter(&|&x| (self.label)(x))
            .y_label_formatter(&|y| format!("{y:.0}"))
            .draw()?;
        for (index, (name, curve)) in curves.iter().enumerate() {
            // The third of the palette, yellow, is hard to see on white.
            let colour = Palette99::pick(index + usize::from(index > 1)).to_rgba();
            chart
                .draw_series(LineSeries::new(curve.iter().copied(), colour.stroke_width(2)))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], colour.stroke_width(2)));
            chart.draw_series(curve.iter().map(|&at| Circle::new(at, 3, colour.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(plotters::chart::SeriesLabelPosition::UpperLeft)
            .legend_area_size(30)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .label_font(FONT)
            .draw()?;
        area.present()?;
        Ok(())
    }
}
