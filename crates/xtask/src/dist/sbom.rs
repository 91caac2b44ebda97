//! The list of components (CycloneDX): that of the crates, and the script of the charts in them.

use std::fs;

use serde_json::{Value, json};

use crate::steps::root;

/// Adds the charts to the list of crates.
pub(super) fn with_charts(list: &str) -> Result<String, String> {
    let readme = root().join("crates/report/assets/README.md");
    let readme = fs::read_to_string(&readme).map_err(|error| format!("{}: {error}", readme.display()))?;
    let charts = charts(&readme).ok_or("crates/report/assets/README.md lacks versions or digest of ECharts")?;
    let mut list: Value = serde_json::from_str(list).map_err(|error| format!("list of crates: {error}"))?;
    add(&mut list, charts).ok_or("the list of crates has no component breme, or no dependencies of it")?;
    serde_json::to_string_pretty(&list).map_err(|error| format!("list of crates: {error}"))
}

/// ECharts and the library that is part of its script, with their versions and the digest from the table of assets.
fn charts(readme: &str) -> Option<[Value; 2]> {
    let digest = readme.lines().find_map(|line| line.strip_suffix("  echarts.min.js"))?;
    let mut echarts = package(readme, "echarts", "Apache-2.0 AND BSD-3-Clause AND 0BSD")?;
    echarts["hashes"] = json!([{ "alg": "SHA-256", "content": digest }]);
    Some([echarts, package(readme, "zrender", "BSD-3-Clause")?])
}

/// A package of the npm registry, whose version follows its name in the text.
fn package(readme: &str, name: &str, license: &str) -> Option<Value> {
    let (_, rest) = readme.split_once(&format!("`{name}@"))?;
    let (version, _) = rest.split_once('`')?;
    let purl = format!("pkg:npm/{name}@{version}");
    Some(json!({
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "licenses": [{ "expression": license }],
        "purl": purl,
    }))
}

/// `breme` depends on the first component, and that on the second.
fn add(list: &mut Value, [echarts, zrender]: [Value; 2]) -> Option<()> {
    let [breme, charts, drawing] =
        [&list["metadata"]["component"], &echarts, &zrender].map(|component| component["bom-ref"].clone());
    let dependencies = list["dependencies"].as_array_mut()?;
    let of_breme = dependencies.iter_mut().find(|dependency| dependency["ref"] == breme)?;
    of_breme["dependsOn"].as_array_mut()?.push(charts.clone());
    dependencies.push(json!({ "ref": charts, "dependsOn": [drawing] }));
    dependencies.push(json!({ "ref": drawing }));
    list["components"].as_array_mut()?.extend([echarts, zrender]);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_charts_are_components() {
        let crates = json!({
            "metadata": { "component": { "bom-ref": "breme#1" } },
            "components": [{ "bom-ref": "serde#1" }],
            "dependencies": [{ "ref": "serde#1" }, { "ref": "breme#1", "dependsOn": ["serde#1"] }],
        });
        let list: Value = serde_json::from_str(&with_charts(&crates.to_string()).unwrap()).unwrap();
        let echarts = &list["components"][1];
        let reference = echarts["bom-ref"].as_str().unwrap();
        assert!(reference.starts_with("pkg:npm/echarts@"), "{list}");
        assert_eq!(echarts["hashes"][0]["content"].as_str().unwrap().len(), 64, "{list}");
        assert_eq!(list["dependencies"][1]["dependsOn"], json!(["serde#1", reference]), "{list}");
        assert_eq!(list["dependencies"][2]["dependsOn"][0], list["components"][2]["bom-ref"], "{list}");
    }

    #[test]
    fn a_list_without_breme_is_refused() {
        assert!(with_charts("{}").is_err_and(|error| error.contains("breme")));
    }
}
