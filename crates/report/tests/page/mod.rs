//! A page in a browser, from a file, and what every page must do.

#![allow(dead_code, reason = "each user of this module takes a part of it")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::chromium::Browser;

pub struct Page {
    pub browser: Browser,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Page {
    pub fn new(html: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let page = Self { browser: Browser::start(), file: folder.path().join("page.html"), _folder: folder };
        page.write(html);
        page
    }

    pub fn write(&self, html: &str) {
        std::fs::write(&self.file, html).unwrap();
    }

    pub fn open(&mut self, width_px: u32, height_px: u32) {
        self.browser.open(&self.file, width_px, height_px);
    }

    pub fn open_whole(&mut self, width_px: u32) {
        self.browser.open_whole(&self.file, width_px);
    }

    pub fn evaluate(&mut self, expression: &str) -> Value {
        self.browser.evaluate(expression)
    }

    /// The text of an element, with plain spaces.
    pub fn text(&mut self, selector: &str) -> String {
        let text = self.evaluate(&format!("document.querySelector('{selector}').innerText"));
        text.as_str().unwrap().replace('\u{a0}', " ")
    }

    pub fn count(&mut self, selector: &str) -> u64 {
        self.evaluate(&format!("document.querySelectorAll('{selector}').length")).as_u64().unwrap()
    }

    /// No error message, and no request except for the file.
    pub fn check_quiet(&self) {
        assert!(self.browser.complaints().is_empty(), "{:?}", self.browser.complaints());
        let requests: BTreeSet<&str> = self.browser.requests().into_iter().collect();
        assert_eq!(requests.len(), 1, "{requests:?}");
    }

    /// There are as many charts, each with a drawing.
    pub fn check_charts(&mut self, count: usize) {
        let paths = "[...document.querySelectorAll('.plot')].map((plot) => plot.querySelectorAll('svg path').length)";
        let paths = self.evaluate(paths);
        let paths = paths.as_array().unwrap();
        assert_eq!(paths.len(), count);
        assert!(paths.iter().all(|paths| paths.as_u64() > Some(3)), "{paths:?}");
    }

    /// Light and dark differ. Keeps pictures of both, and leaves it light.
    pub fn check_colours(&mut self, name: &str) {
        let backgrounds = ["dark", "light"].map(|colours| {
            self.evaluate(&format!("document.querySelector('button[data-colours={colours}]').click()"));
            self.browser.keep_picture(&format!("{name}-{colours}.png"));
            self.evaluate("getComputedStyle(document.body).backgroundColor")
        });
        assert_ne!(backgrounds[0], backgrounds[1]);
    }

    /// On paper it is white, has no buttons, and every chart is drawn. Keeps a picture.
    pub fn check_paper(&mut self, name: &str) {
        self.browser.call("Emulation.setEmulatedMedia", json!({ "media": "print" }));
        let paper = self.evaluate(
            "[getComputedStyle(document.body).backgroundColor,
              [...document.querySelectorAll('.plot svg')].filter((svg) => svg.getBoundingClientRect().height < 40).length,
              [...document.querySelectorAll('button')].filter((control) => control.checkVisibility()).length]",
        );
        assert_eq!(paper, json!(["rgb(255, 255, 255)", 0, 0]));
        self.browser.keep_picture(&format!("{name}-print.png"));
        self.browser.call("Emulation.setEmulatedMedia", json!({ "media": "" }));
    }

    /// On a phone nothing is wider than the screen. Keeps a picture.
    pub fn check_phone(&mut self, name: &str) {
        self.open_whole(390);
        assert_eq!(self.evaluate("document.documentElement.scrollWidth"), 390);
        let wide = "[...document.querySelectorAll('.plot svg text')].filter((text) => text.getBoundingClientRect().right > innerWidth + 1).length";
        assert_eq!(self.evaluate(wide), 0, "labels within the screen");
        self.browser.keep_picture(&format!("{name}-phone.png"));
    }
}
