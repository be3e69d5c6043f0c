//! Curves with the sizes of caches as marks, as SVG.

use crate::{failure::Failure, output::write_file};
use bf_postproc::size;
use plotters::{
    chart::SeriesLabelPosition,
    coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter},
    prelude::{
        ChartBuilder, Circle, DashedLineSeries, IntoDrawingArea, IntoLogRange, LineSeries, PathElement, SVGBackend,
        TRANSPARENT, Text, WHITE,
    },
    style::{BLACK, Color, Palette, Palette99, RGBColor},
};
use std::path::Path;

/// A name, and points by ascending x: where, and whether the figure settled.
pub type Curve = (String, Vec<(f64, f64, bool)>);

/// What a picture shows.
pub struct Plot<'a> {
    /// What stands above it.
    pub title: &'a str,
    /// The horizontal axis: sizes in bytes, by powers of two, or plain numbers.
    pub x: Horizontal<'a>,
    /// The vertical axis.
    pub y: &'a str,
    /// Vertical lines with their names.
    pub marks: &'a [(String, f64)],
    /// Where the names of the curves stand.
    pub legend: SeriesLabelPosition,
}

/// The horizontal axis.
#[derive(Clone, Copy)]
pub enum Horizontal<'a> {
    /// Sizes in bytes, by powers of two.
    Bytes(&'a str),
    /// Numbers, by powers of two.
    Count(&'a str),
    /// Numbers, linear from 0.
    Linear(&'a str),
}

/// Pixels.
const SIZE: (u32, u32) = (960, 560);
const GREY: RGBColor = RGBColor(225, 225, 225);
const MARK: RGBColor = RGBColor(120, 120, 120);
const FONT: (&str, i32) = ("sans-serif", 15);
/// Labels that fit beside each other below the plot.
const MOST_LABELS: usize = 14;
/// Values beside the plot: with more, those of a logarithmic axis overlap.
const MOST_VALUES: usize = 6;
/// What hollow points mean.
const HOLLOW: &str = "hollow: rounds did not agree";

impl Plot<'_> {
    /// Writes the picture.
    pub fn write(&self, path: &Path, curves: &[Curve]) -> Result<(), Failure> {
        let mut svg = String::new();
        self.draw(&mut svg, curves).map_err(|error| Failure::file("draw", path, error))?;
        write_file(path, svg)
    }

    fn draw(&self, svg: &mut String, curves: &[Curve]) -> Result<(), Box<dyn std::error::Error>> {
        let all = || all_of(curves);
        let extent = |of: fn(&(f64, f64, bool)) -> f64| {
            let values = || all().map(of).filter(|value| *value > 0.0);
            (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max))
        };
        let ((left, right), (low, high)) = (extent(|at| at.0), extent(|at| at.1));
        if !(left < right && low <= high) {
            return Err("there are not two points to draw a line between".into());
        }
        // Room around the data, below it for names.
        let y = (low / 1.6..high * 1.3).log_scale();
        match self.x {
            Horizontal::Bytes(name) => {
                let label = |x: f64| size::format(x.round() as u64);
                self.axes(svg, curves, name, &label, (left..right).log_scale().base(2.0), y)
            }
            Horizontal::Count(name) => {
                self.axes(svg, curves, name, &|x| format!("{x:.0}"), (left..right).log_scale().base(2.0), y)
            }
            Horizontal::Linear(name) => {
                self.axes(svg, curves, name, &|x| format!("{x:.0}"), 0.0..right * 1.05, 0.0..high * 1.1)
            }
        }
    }

    fn axes<X, Y>(
        &self,
        svg: &mut String,
        curves: &[Curve],
        name: &str,
        label: &dyn Fn(f64) -> String,
        x: X,
        y: Y,
    ) -> Result<(), Box<dyn std::error::Error>>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, ("sans-serif", 18))
            .margin(15)
            .x_label_area_size(45)
            .y_label_area_size(65)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GREY)
            .x_labels(MOST_LABELS)
            .x_desc(name)
            .y_desc(self.y)
            .label_style(FONT)
            .x_label_formatter(&|x| label(*x))
            .y_labels(MOST_VALUES)
            .y_label_formatter(&|y| if *y < 10.0 && *y > 0.0 { format!("{y:.1}") } else { format!("{y:.0}") })
            .draw()?;
        let (left, right) = (chart.x_range().start, chart.x_range().end);
        let (bottom, top) = (chart.y_range().start, chart.y_range().end);
        for (name, at) in self.marks.iter().filter(|(_, at)| (left..=right).contains(at)) {
            chart.draw_series(DashedLineSeries::new([(*at, bottom), (*at, top)], 5, 4, MARK.stroke_width(1)))?;
            chart.draw_series([Text::new(name.clone(), (*at, top), FONT)])?;
        }
        for (index, (name, curve)) in curves.iter().enumerate() {
            // The third of the palette, yellow, is hard to see on white.
            let colour = Palette99::pick(index + usize::from(index > 1)).to_rgba();
            chart
                .draw_series(LineSeries::new(curve.iter().map(|&(x, y, _)| (x, y)), colour.stroke_width(2)))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], colour.stroke_width(2)));
            chart.draw_series(curve.iter().map(|&(x, y, _)| Circle::new((x, y), 3, colour.filled())))?;
            let hollow = curve.iter().filter(|(_, _, stable)| !stable);
            chart.draw_series(hollow.map(|&(x, y, _)| Circle::new((x, y), 2, WHITE.filled())))?;
        }
        if all_of(curves).any(|(_, _, stable)| !stable) {
            let nothing = LineSeries::new(std::iter::empty::<(f64, f64)>(), MARK.stroke_width(1));
            chart
                .draw_series(nothing)?
                .label(HOLLOW)
                .legend(|(x, y)| Circle::new((x + 12, y), 3, MARK.stroke_width(1)));
        }
        chart
            .configure_series_labels()
            .position(self.legend.clone())
            .legend_area_size(30)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .label_font(FONT)
            .draw()?;
        area.present()?;
        Ok(())
    }
}

fn all_of(curves: &[Curve]) -> impl Iterator<Item = &(f64, f64, bool)> {
    curves.iter().flat_map(|(_, curve)| curve)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_curves_and_marks() {
        let plot = Plot {
            title: "t",
            x: Horizontal::Bytes("size"),
            y: "ns",
            marks: &[("L1d 32K".to_owned(), 32768.0)],
            legend: SeriesLabelPosition::LowerLeft,
        };
        let mut svg = String::new();
        plot.draw(&mut svg, &[("small pages".to_owned(), vec![(4096.0, 1.0, true), (65536.0, 3.0, true)])]).unwrap();
        assert!(svg.contains("L1d 32K") && svg.contains("small pages") && svg.contains("64K"));
        assert!(!svg.contains(HOLLOW));
        let mut unsettled = String::new();
        plot.draw(&mut unsettled, &[("x".to_owned(), vec![(4096.0, 1.0, true), (65536.0, 3.0, false)])]).unwrap();
        assert!(unsettled.contains(HOLLOW));
        let mut none = String::new();
        assert!(plot.draw(&mut none, &[("x".to_owned(), vec![(1.0, 1.0, true)])]).is_err());
    }
}
