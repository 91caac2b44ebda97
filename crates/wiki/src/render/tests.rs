use super::*;

fn own() -> Name {
    Name::parse("Own page").unwrap()
}

fn html(text: &str) -> String {
    render(text, &own(), &[Name::parse("Missing").unwrap()]).html
}

#[test]
fn markdown_becomes_html() {
    for (text, expected) in [
        ("**a** ~~b~~ `c`", "<p><strong>a</strong> <del>b</del> <code>c</code></p>"),
        ("# A\n\n# A", "<h2 id=\"section-a\">A</h2>\n<h2 id=\"section-a-1\">A</h2>"),
        ("###### Šest *x*", "<h6 id=\"section-šest-x\">Šest <em>x</em></h6>"),
        ("```rust\nx < y\n```", "<pre tabindex=\"0\"><code class=\"language-rust\">x &lt; y\n</code></pre>"),
        ("![a](attachment:map.png)", "<img src=\"/wiki/Own_page/files/map.png\" alt=\"a\" loading=\"lazy\">"),
        ("[a](attachment:a%20b.pdf)", "<a href=\"/wiki/Own_page/files/a_b.pdf\">a</a>"),
        ("https://example.org/", "<a href=\"https://example.org/\">https://example.org/</a>"),
        ("**東京**タワー", "<strong>東京</strong>タワー"),
    ] {
        assert!(html(text).contains(expected), "{text}: {}", html(text));
    }
    let list = html("- [x] done\n- [ ] open");
    assert!(list.contains("checked=\"\"") && list.matches("disabled=\"\"").count() == 2, "{list}");
    let table = html("| a | b |\n|---|--:|\n| 1 | 2 |");
    assert!(table.contains("<td align=\"right\">2</td>") && table.contains("tabindex=\"0\""), "{table}");
}

#[test]
fn links_lead_to_pages() {
    for (text, expected) in [
        ("[[Other page]]", "<a href=\"/wiki/Other_page\">Other page</a>"),
        ("[[other_page|the *text*]]", "<a href=\"/wiki/other_page\">the *text*</a>"),
        ("[[Grad Žužemberk#The tower]]", "<a href=\"/wiki/Grad_%C5%BDu%C5%BEemberk#section-the-tower\">"),
        ("[[#Below]]", "<a href=\"#section-below\">"),
        (
            "[[Missing]]",
            "<a class=\"missing\" href=\"/wiki/Missing\">Missing<span class=\"hidden\"> (page does not exist)</span></a>",
        ),
        ("[[Missing|<b>]]", "<a class=\"missing\" href=\"/wiki/Missing\">&lt;b&gt;<span"),
        ("`[[Other]]`", "<code>[[Other]]</code>"),
    ] {
        assert!(html(text).contains(expected), "{text}: {}", html(text));
    }
    assert!(!html("[[a/b]]").contains("<a"), "{}", html("[[a/b]]"));
    let names: Vec<String> = links("[[A]] [[b c|x]] [[A#y]] `[[no]]`\n\n    [[code]]\n\n[[Ž]] [[a/b]]")
        .into_iter()
        .map(String::from)
        .collect();
    assert_eq!(names, ["A", "b c", "Ž"]);
}

/// Texts that made other wikis run scripts, and what the output must not contain: an element or an attribute outside
/// the list, or a URL of another scheme. The check parses the output again like a browser, and inspects the tree.
#[test]
fn no_text_runs_a_script() {
    const PROBES: &[&str] = &[
        // raw HTML
        "<script>alert(1)</script>",
        "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
        "<img src=x onerror=alert(1)>",
        "<img src=\"x` `<script>alert(1)</script>\"` `>",
        "<b onmouseover=alert(1)>x</b>",
        "<div style=\"background:url(javascript:alert(1))\">x</div>",
        "<iframe src=javascript:alert(1)></iframe>",
        "<iframe srcdoc='<script>alert(1)</script>'>",
        "<object data=\"data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==\">",
        "<embed src=javascript:alert(1)>",
        "<base href=//evil.example/>",
        "<meta http-equiv=refresh content=\"0;url=javascript:alert(1)\">",
        "<form action=javascript:alert(1)><button>x</button></form>",
        "<details open ontoggle=alert(1)>",
        "<video><source onerror=alert(1)></video>",
        "<isindex type=image src=1 onerror=alert(1)>",
        "<a href=javascript:alert(1)>x</a>",
        "<style>@import 'javascript:alert(1)';</style>",
        "<!--><script>alert(1)</script>-->",
        "<![CDATA[<script>alert(1)</script>]]>",
        "<?php <script>alert(1)</script> ?>",
        "\n\n<div>\n<script>alert(1)</script>\n</div>\n\n",
        // URLs
        "[a](javascript:alert(1))",
        "[a](JaVaScRiPt:alert(1))",
        "[a](java&#x73;cript:alert(1))",
        "[a](java\tscript:alert(1))",
        "[a](<java\u{1}script:alert(1)>)",
        "[a](\u{1}javascript:alert(1))",
        "[a]( javascript&colon;alert(1))",
        "[a](javascript&#58;alert(1))",
        "[a](vbscript:msgbox(1))",
        "[a](data:text/html,<script>alert(1)</script>)",
        "[a](data:image/svg+xml;base64,PHN2Zy8+)",
        "![a](data:image/svg+xml,<svg onload=alert(1)>)",
        "![a](javascript:alert(1))",
        "<javascript:alert(1)>",
        "[a]\n\n[a]: javascript:alert(1)",
        "[a](file:///etc/passwd)",
        "[a](blob:https://x/y)",
        "[a](attachment:\"onerror=alert(1))",
        "![a](attachment:../../x)",
        "[[javascript:alert(1)]]",
        "[[javascript:alert(1)|x]]",
        "[[\"onmouseover=alert(1) x|y]]",
        "[[Missing\"onmouseover=alert(1)|y]]",
        "[[Missing|<script>alert(1)</script>]]",
        "[[Missing|\"><img src=x onerror=alert(1)>]]",
        "[[#\"onclick=alert(1)]]",
        // attributes
        "[a](x \"onmouseover=alert(1)\")",
        "[a](x '\"onmouseover=\"alert(1)')",
        "![a\"onerror=alert(1)](x)",
        "![a](x\"onerror=\"alert(1))",
        "```\"onmouseover=alert(1)\nx\n```",
        "``` x\"><script>alert(1)</script>\nx\n```",
        "# <img src=x onerror=alert(1)>",
        "# \"onmouseover=alert(1) id=x",
        "[^\"onclick=alert(1)]\n\n[^\"onclick=alert(1)]: x",
        "[^<script>]\n\n[^<script>]: <script>alert(1)</script>",
        "| <script>alert(1)</script> |\n|---|\n| \" onclick=alert(1) |",
        "> [!NOTE] <script>alert(1)</script>\n> <img src=x onerror=alert(1)>",
        "> [!\"onclick=alert(1)]\n> x",
        // SVG, MathML, and texts that change their meaning when parsed twice (mXSS)
        "<svg onload=alert(1)>",
        "<svg><script>alert&lpar;1&rpar;</script></svg>",
        "<svg><a xlink:href=javascript:alert(1)><text>x</text></a></svg>",
        "<svg><animate attributeName=href values=javascript:alert(1)>",
        "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert(1)&gt;\">",
        "<math><mi//xlink:href=\"data:x,<script>alert(4)</script>\">",
        "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
        "<svg></p><style><a id=\"</style><img src=1 onerror=alert(1)>\">",
        "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
        "<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;</title>",
        "<textarea></textarea><script>alert(1)</script>",
        "<xmp><p title=\"</xmp><img src=x onerror=alert(1)>\">",
        "<template><script>alert(1)</script></template>",
        "<select><style></select><img src=x onerror=alert(1)></style>",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "\\<script\\>alert(1)\\</script\\>",
        "<scr<script>ipt>alert(1)</scr</script>ipt>",
        "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
        "\u{ff1c}script\u{ff1e}alert(1)\u{ff1c}/script\u{ff1e}",
        "<scr\0ipt>alert(1)</scr\0ipt>",
        "<img src=x\u{c}onerror=alert(1)>",
        "<a href=\"\u{3000}javascript:alert(1)\">x</a>",
        // around other languages
        "漢字<script>alert(1)</script>かな",
        "\u{202e}<script>alert(1)</script>",
        "العربية [x](javascript:alert(1)) עברית",
    ];
    for probe in PROBES {
        check_tree(probe, &html(probe));
        check_tree(probe, &render(probe, &own(), &links(probe)).html);
    }
}

/// Parses it with the same algorithm as browsers, through the sanitiser's tree, and checks every tag.
fn check_tree(probe: &str, html: &str) {
    assert_eq!(SANITISER.clean(html).to_string(), html, "{probe}: cleaning it again changes it");
    let tags = "a blockquote br code del div em h2 hr img input li ol p pre section span \
        strong sup table tbody td th thead tr ul";
    for tag in html.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        let name: String = tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
        assert!(tags.split(' ').any(|one| one == name), "{probe}: <{tag}>");
        // Outside quotes, no attribute begins with `on` and none is `style`.
        let outside: String = tag.split('"').step_by(2).collect();
        for attribute in outside.split_whitespace().skip(1) {
            assert!(!attribute.starts_with("on") && !attribute.starts_with("style"), "{probe}: <{tag}>");
        }
        for (url, _) in ["href=\"", "src=\""].iter().filter_map(|name| tag.split_once(name)?.1.split_once('"')) {
            let url = url.to_lowercase();
            // The part before a colon is a scheme only if it consists of these characters (RFC 3986, section 3.1).
            let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
            let is_scheme =
                !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
            let allowed = ["http:", "https:", "mailto:", "tel:"].iter().any(|one| url.starts_with(one));
            assert!(allowed || !is_scheme, "{probe}: {url}");
        }
    }
}

#[test]
fn texts_of_all_languages_come_through() {
    for text in [
        "Ljubljana je glavno mesto",
        "東京タワー",
        "ก็ได้",
        "مرحبا بالعالم",
        "שלום",
        "हिन्दी",
        "👩‍👩‍👧‍👦",
        "ß ſ ŉ İ ı",
        "e\u{301}\u{323}",
    ] {
        assert!(html(text).contains(text), "{text}: {}", html(text));
    }
}

#[test]
fn quotes_are_nested_up_to_a_depth() {
    // The work for these must not grow with the square of their length.
    for text in [">".repeat(500_000), "> ".repeat(250_000), "1. > ".repeat(100_000), " >".repeat(250_000)] {
        let rendered = html(&text);
        let depth = rendered.matches("<blockquote>").count();
        assert!((NESTING_MAX / 4..=NESTING_MAX).contains(&depth), "{}: {depth}", &text[..6]);
    }
    assert!(html(&format!("{} a", ">".repeat(50))).matches("<blockquote>").count() == 50);
    assert_eq!(links(&format!("{}[[A]]", ">".repeat(500_000))).len(), 1);
}

#[test]
fn a_short_text_does_not_become_a_huge_page() {
    for text in [format!("[^a]: x\n\n{}", "[^a]".repeat(50_000)), "# a\n".repeat(50_000)] {
        let rendered = html(&text);
        assert!(rendered.len() <= HTML_BYTES_FREE + EXPANSION_MAX * text.len(), "{}", rendered.len());
        assert!(rendered.starts_with("<pre tabindex=\"0\"><code>") && rendered.contains(text.lines().next().unwrap()));
    }
}

/// Texts that make careless parsers recurse deeply or work long: rendering must end and preserve their content.
#[test]
fn deep_and_long_texts_are_rendered() {
    let deep = 20_000;
    for text in [
        ">".repeat(deep),
        "[".repeat(deep),
        "![".repeat(deep),
        "*a _b ".repeat(deep),
        "- ".repeat(deep),
        "[[".repeat(deep),
        "`a``b".repeat(deep),
        "<a ".repeat(deep),
        "|a".repeat(deep) + "\n" + &"|-".repeat(deep),
        "[^a]".repeat(deep) + "\n\n[^a]: x",
    ] {
        let rendered = html(&text);
        assert!(!rendered.is_empty(), "{}", &text[..20]);
    }
}

#[test]
fn no_text_or_attribute_has_many_references() {
    let longest = |html: &str| {
        let mut parts = html.split(['<', '>']).map(|part| part.matches('&').count()).collect::<Vec<_>>();
        parts.sort_unstable();
        parts.pop()
    };
    let many = "&".repeat(10 * TEXT_REFERENCES_MAX);
    let escaped = escape(&many);
    for html in
        [format!("<p>{escaped}</p>\n<p>a &lt; {escaped}"), format!("<pre><code>é{escaped}</code></pre>"), escaped]
    {
        let divided = with_short_texts(&html).unwrap();
        assert_eq!(longest(&divided), Some(TEXT_REFERENCES_MAX));
        assert_eq!(SANITISER.clean(&divided).to_string(), SANITISER.clean(&html).to_string());
    }
    let few = format!("<p>{}</p>", "&amp;".repeat(TEXT_REFERENCES_MAX));
    assert!(matches!(with_short_texts(&few), Some(Cow::Borrowed(same)) if same == few));
    assert_eq!(html(&many), format!("<p>{}</p>\n", escape(&many)), "comments are not shown");
    for (count, is_image) in [(TAG_REFERENCES_MAX, true), (TAG_REFERENCES_MAX + 1, false)] {
        let html = html(&format!("![{}](https://example.org/a)", "&".repeat(count)));
        assert_eq!(html.contains("<img"), is_image, "{count}");
        assert_eq!(html.starts_with("<pre tabindex=\"0\"><code>!["), !is_image, "{count}");
    }
}
