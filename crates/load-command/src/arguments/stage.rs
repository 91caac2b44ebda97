//! A stage of a schedule.

use breme_command::units::{duration, rate};
use breme_load_plan::{PaceStage, Shape};

/// A stage in a flag: `10s:500` is a ramp to 500 per second, `1m@500` that rate for the whole stage.
pub fn stage(text: &str) -> Result<PaceStage, String> {
    let (place, shape) = match (text.find(':'), text.find('@')) {
        (Some(place), None) => (place, Shape::Ramp),
        (None, Some(place)) => (place, Shape::Step),
        _ => {
            return Err(format!(
                "{text:?} is not a stage; write TIME:RATE for a linear change to RATE, as in 10s:500, or TIME@RATE for a constant rate, as in 1m@500"
            ));
        }
    };
    let duration = duration(&text[..place]).map_err(|error| error.to_string())?;
    Ok(PaceStage { duration, rate: rate(&text[place + 1..])?, shape })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn stages() {
        let expected = PaceStage { duration: Duration::from_secs(10), rate: 1_000.0, shape: Shape::Ramp };
        assert_eq!(stage("10s:1k"), Ok(expected));
        assert_eq!(stage("10@1k"), Ok(PaceStage { shape: Shape::Step, ..expected }));
        assert!(stage("10s").unwrap_err().contains("TIME:RATE") && stage("1:2@3").is_err());
        assert!(
            stage("x:1").unwrap_err().contains("not a duration") && stage("1s:x").unwrap_err().contains("not a rate")
        );
    }
}
