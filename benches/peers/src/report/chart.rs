//! The chart: a line for each row of the table, a dot for each peer, at what it costs to volt's.

use std::error::Error;
use std::path::Path;

use plotters::backend::SVGBackend;
use plotters::drawing::IntoDrawingArea;
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::style::{Color, RGBColor, TextStyle, WHITE};

use super::verdict::{cost, figure};
use crate::cases::{Bar, Case, Row};
use crate::parent::{Plan, Results};
use crate::peer::Peer;

const LEFT: i32 = 340;
const WIDTH: i32 = 620;
const RIGHT: i32 = 40;
const TOP: i32 = 70;
const LINE: i32 = 20;
/// Ratios beyond these stand at the edge.
const LEAST: f64 = 0.1;
const MOST: f64 = 100.0;
const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(222, 222, 222);

fn colour(peer: Peer) -> RGBColor {
    match peer {
        Peer::Volt => INK,
        Peer::Tokio => RGBColor(213, 94, 0),
        Peer::May => RGBColor(0, 158, 115),
        Peer::Go => RGBColor(0, 114, 178),
        Peer::Threads => RGBColor(204, 121, 167),
        Peer::Floor => RGBColor(150, 150, 150),
    }
}

/// Where a ratio stands; the axis is logarithmic.
fn place(ratio: f64) -> i32 {
    let part = (ratio.clamp(LEAST, MOST) / LEAST).ln() / (MOST / LEAST).ln();
    LEFT + (part * f64::from(WIDTH)).round() as i32
}

pub(super) fn draw(file: &Path, plan: &Plan, results: &Results) -> Result<(), Box<dyn Error>> {
    let rows: Vec<(&Case, &Row)> = plan
        .cases
        .iter()
        .flat_map(|case| case.rows.iter().map(move |row| (*case, row)))
        .filter(|(_, row)| !matches!(row.bar, Bar::Shown))
        .filter(|(case, row)| figure(results, case, row, Peer::Volt).is_some_and(|x| x > 0.0))
        .collect();
    let bottom = TOP + LINE * rows.len() as i32;
    let size = ((LEFT + WIDTH + RIGHT) as u32, (bottom + 16) as u32);
    let area = SVGBackend::new(file, size).into_drawing_area();
    area.fill(&WHITE)?;
    let style = TextStyle::from(("sans-serif", 13)).color(&INK);

    let title = "What each costs, to volt's: right of the line volt is cheaper";
    area.draw(&Text::new(title, (12, 10), TextStyle::from(("sans-serif", 15)).color(&INK)))?;
    for (i, &peer) in plan.peers.iter().filter(|&&peer| peer != Peer::Volt).enumerate() {
        let x = LEFT + 90 * i as i32;
        area.draw(&Circle::new((x, 42), 5, colour(peer).filled()))?;
        area.draw(&Text::new(peer.name(), (x + 10, 35), style.clone()))?;
    }
    for (ratio, name) in [
        (0.1, "0.1"),
        (0.3, "0.3"),
        (1.0, "volt"),
        (3.0, "3x"),
        (10.0, "10x"),
        (30.0, "30x"),
        (100.0, "100x"),
    ] {
        let x = place(ratio);
        let ink = if ratio == 1.0 { INK } else { GRID };
        area.draw(&PathElement::new(vec![(x, TOP - 4), (x, bottom)], ink))?;
        area.draw(&Text::new(name, (x - 8, TOP - 18), style.clone()))?;
    }
    for (i, (case, row)) in rows.iter().enumerate() {
        let y = TOP + LINE * i as i32;
        if i % 2 == 0 {
            let band = [(0, y), (LEFT + WIDTH + RIGHT, y + LINE)];
            area.draw(&Rectangle::new(band, INK.mix(0.04).filled()))?;
        }
        area.draw(&Text::new(row.title, (12, y + 5), style.clone()))?;
        let volt = figure(results, case, row, Peer::Volt).expect("a row that volt is in");
        for &peer in plan.peers.iter().filter(|&&peer| peer != Peer::Volt) {
            if let Some(theirs) = figure(results, case, row, peer) {
                let at = (place(cost(row.unit, theirs, volt)), y + LINE / 2);
                area.draw(&Circle::new(at, 5, colour(peer).mix(0.85).filled()))?;
            }
        }
    }
    area.present()?;
    Ok(())
}
