//! Quantiles over time: a line for each, with bands between them.

use serde_json::{Value, json};

use crate::chart::{Look, number};

/// Limit of the places that are drawn as symbols too.
const SYMBOLS_MAX: usize = 2;

/// Series of an ECharts option. `places`: x and the ascending quantiles as positions on the axis; None: a break.
pub(crate) fn bands<X: serde::Serialize, const N: usize>(places: &[(X, Option<[f64; N]>)]) -> Value {
    let colour = Look::series(0).colour();
    // The median is the strongest; rarer quantiles are paler.
    let paler = |index: usize, first: f64| if index == 0 { first } else { 0.3 / index as f64 };
    let column = |of: &dyn Fn(&[f64; N]) -> f64| -> Vec<Value> {
        places.iter().map(|(x, place)| json!([x, place.as_ref().map(|place| number(of(place)))])).collect()
    };
    // A line of a single point is invisible.
    let symbol = if places.len() <= SYMBOLS_MAX { "circle" } else { "none" };
    let mut series = Vec::new();
    for index in 0..N {
        let id = if index == 0 { String::from("under low") } else { format!("{index} band") };
        let height = |place: &[f64; N]| if index == 0 { place[0] } else { place[index] - place[index - 1] };
        series.push(json!({
            "type": "line", "id": id, "name": id, "data": column(&height), "stack": "bands", "stackStrategy": "all",
            "symbol": "none", "silent": true, "lineStyle": { "opacity": 0 },
            "areaStyle": { "color": colour, "opacity": paler(index, 0.0) },
        }));
        series.push(json!({
            "type": "line", "id": format!("quantile {index}"), "name": format!("line {index}"),
            "data": column(&|place| place[index]), "symbol": symbol, "symbolSize": 6, "z": 3,
            "lineStyle": {
                "color": colour, "width": if index == 0 { 2 } else { 1 }, "opacity": (paler(index, 0.8) + 0.2).min(1.0),
            },
            "itemStyle": { "color": colour },
        }));
    }
    Value::Array(series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_interval_is_visible() {
        let of = |count: usize| bands(&vec![(0, Some([1.0, 2.0])); count])[1]["symbol"].clone();
        assert_eq!([1, 2, 3].map(of), ["circle", "circle", "none"]);
    }
}
