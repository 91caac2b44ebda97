//! The examples are valid experiments, and so are the files that plans write of them.

use breme_experiment::plan::Plan;

use crate::world;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/experiments");

#[allow(clippy::disallowed_methods, reason = "the test reads the examples, the crate does not")]
fn file(name: &str) -> Result<String, String> {
    std::fs::read_to_string(format!("{FOLDER}/{name}")).map_err(|error| error.to_string())
}

fn plan(name: &str, profile: Option<&str>) -> Plan {
    let text = file(name).unwrap();
    world::read_with(&text, profile, "/examples", &file).unwrap_or_else(|faults| panic!("{name}:\n{faults}"))
}

#[test]
fn examples_are_read_in_every_profile() {
    let mut count = 0;
    for entry in std::fs::read_dir(FOLDER).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".toml") {
            continue;
        }
        count += 1;
        for profile in [None, Some("quick")] {
            let plan = plan(&name, profile);
            assert!(!plan.trials().is_empty() || plan.search.is_some(), "{name}");
            assert!(
                plan.warnings.iter().all(|warning| warning.starts_with("not judged in this profile")),
                "{name}: {:?}",
                plan.warnings
            );
            let again = world::read_with(&plan.to_toml(), None, "", &|_| Err("all files are in the plan".to_owned()));
            let again = again.unwrap_or_else(|faults| panic!("{name}:\n{faults}\n{}", plan.to_toml()));
            assert_same(&plan, &again);
        }
    }
    assert!(count >= 4, "{count} examples");
}

#[test]
fn the_first_example_of_the_documentation_is_an_experiment() {
    let page = include_str!("../../../../docs/EXPERIMENTS.md");
    let example = page.split("```toml\n").find(|part| part.starts_with("title")).unwrap();
    let plan = world::read(example.split("```").next().unwrap(), None).unwrap_or_else(|faults| panic!("{faults}"));
    let blocks = plan.blocks;
    assert_eq!((blocks.least, blocks.most, plan.trials().len(), plan.hypotheses.len()), (6, 24, 72, 1));
}

fn assert_same(one: &Plan, other: &Plan) {
    assert_eq!(one.trials(), other.trials());
    for key in one.trials() {
        assert_eq!(one.trial(&key), other.trial(&key));
    }
    assert_eq!(one.hypotheses, other.hypotheses);
    assert_eq!(one.measures, other.measures);
    assert_eq!(one.models, other.models);
    assert_eq!(one.search, other.search);
    assert_eq!(
        (one.seed, one.aa, &one.factors, &one.title, &one.warnings),
        (other.seed, other.aa, &other.factors, &other.title, &other.warnings)
    );
    assert_eq!(one.to_toml(), other.to_toml());
}
