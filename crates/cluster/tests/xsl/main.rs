//! The XSL application's transformations, with the real xsltproc.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use breme_cluster::xsl::{
    DOCUMENT_BYTES_MAX, TransformError, Transformed, Transformer, TransformerLimits, WAITING_MAX,
};
use tempfile::TempDir;

/// Only reached on failure: a test must not wait without end.
const PATIENCE: Duration = Duration::from_secs(120);

/// The files transformed in the study.
fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/session-cluster/xsl")
}

fn transformer(folder: &Path) -> Transformer {
    Transformer::new(folder, TransformerLimits { processes: 2, cpu_seconds: 1 }).unwrap()
}

const STYLE: &str = "<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'>";

/// A folder with a stylesheet of this content, and an empty document.
fn folder_with(content: &str) -> (TempDir, Transformer) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.xsl"), format!("{STYLE}{content}</xsl:stylesheet>")).unwrap();
    fs::write(folder.path().join("a.xml"), "<a/>").unwrap();
    let transformer = transformer(folder.path());
    (folder, transformer)
}

async fn shipped_result() -> Transformed {
    transformer(&shipped()).transform("elements.xsl", "elements.xml").await.unwrap()
}

/// The expected page was made by another processor, the one in Java 17 (XSLTC), and is spelt as by libxslt: META in
/// lower case, characters instead of entities, and a value with quotes between apostrophes.
#[tokio::test]
async fn the_shipped_files_give_what_another_processor_gives() {
    let result = shipped_result().await;
    assert_eq!(result.media_type, "text/html; charset=UTF-8");
    assert_eq!(std::str::from_utf8(&result.content).unwrap(), include_str!("elements.html"));
}

/// Every table and list of the page is sorted, so the order of the elements in the document is irrelevant.
#[tokio::test]
async fn the_order_of_the_document_is_no_matter() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(shipped().join("elements.xsl"), folder.path().join("a.xsl")).unwrap();
    let text = fs::read_to_string(shipped().join("elements.xml")).unwrap();
    let tree = roxmltree::Document::parse(&text).unwrap();
    let elements = tree.root_element().children().filter(roxmltree::Node::is_element);
    let reversed: Vec<&str> = elements.rev().map(|element| &text[element.range()]).collect();
    assert_eq!(reversed.len(), 118);
    fs::write(folder.path().join("a.xml"), format!("<elements>{}</elements>", reversed.concat())).unwrap();
    let result = transformer(folder.path()).transform("a.xsl", "a.xml").await.unwrap();
    assert_eq!(result, shipped_result().await);
}

#[tokio::test]
async fn nothing_outside_the_folder_is_read() {
    let (folder, transformer) = folder_with("");
    let outside = tempfile::NamedTempFile::new().unwrap();
    fs::write(outside.path(), "<secret/>").unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("link.xml")).unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let up = format!("../{}", outside.path().file_name().unwrap().to_str().unwrap());
    for path in [outside.path().to_str().unwrap(), &up, "sub/../a.xml", "./a.xml", "link.xml", "sub", "", "a\0.xml"] {
        for (style, document) in [("a.xsl", path), (path, "a.xml")] {
            let outcome = transformer.transform(style, document).await;
            assert!(matches!(outcome, Err(TransformError::Forbidden(name)) if name == path), "{path:?}");
        }
    }
    let missing = transformer.transform("a.xsl", "b.xml").await;
    assert!(matches!(missing, Err(TransformError::NotFound(name)) if name == "b.xml"));
}

/// The processor itself could read `/etc/passwd`; nothing that makes it do so may reach it.
#[tokio::test]
async fn a_stylesheet_cannot_read_other_files() {
    let read = "<xsl:template match='/'><xsl:copy-of select=\"document('/etc/passwd')\"/></xsl:template>";
    let (folder, transformer) = folder_with(read);
    let outcome = transformer.transform("a.xsl", "a.xml").await;
    assert!(matches!(outcome, Err(TransformError::Refused(name, _)) if name == "a.xsl"));

    let entity = "<!DOCTYPE a [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><a>&e;</a>";
    fs::write(folder.path().join("a.xml"), entity).unwrap();
    fs::write(folder.path().join("a.xsl"), format!("{STYLE}</xsl:stylesheet>")).unwrap();
    let outcome = transformer.transform("a.xsl", "a.xml").await;
    assert!(matches!(outcome, Err(TransformError::Refused(name, _)) if name == "a.xml"));
}

#[tokio::test]
async fn an_endless_stylesheet_is_ended() {
    // Each call makes two more, 40 deep: a trillion of them.
    let (_folder, transformer) = folder_with(
        "<xsl:template match='/'><xsl:call-template name='twice'><xsl:with-param name='n' select='40'/>\
         </xsl:call-template></xsl:template>\
         <xsl:template name='twice'><xsl:param name='n'/><xsl:if test='$n &gt; 0'>\
         <xsl:call-template name='twice'><xsl:with-param name='n' select='$n - 1'/></xsl:call-template>\
         <xsl:call-template name='twice'><xsl:with-param name='n' select='$n - 1'/></xsl:call-template>\
         </xsl:if></xsl:template>",
    );
    let outcome = transformer.transform("a.xsl", "a.xml").await;
    assert!(matches!(outcome, Err(TransformError::Exceeded(limit)) if limit.contains("CPU time")));
}

#[tokio::test]
async fn recursion_without_end_is_an_error_with_a_message() {
    let (_folder, transformer) =
        folder_with("<xsl:template match='/' name='again'><xsl:call-template name='again'/></xsl:template>");
    let outcome = transformer.transform("a.xsl", "a.xml").await;
    assert!(matches!(&outcome, Err(TransformError::Failed(message)) if message.contains("recursion")), "{outcome:?}");
}

#[tokio::test]
async fn long_results_and_long_documents_are_refused() {
    let (folder, transformer) = folder_with(
        "<xsl:output method='text'/><xsl:template match='b'><xsl:for-each select='//b'>\
         <xsl:value-of select='/a/@x'/></xsl:for-each></xsl:template>",
    );
    let document = format!("<a x='{}'>{}</a>", "x".repeat(1000), "<b/>".repeat(300));
    fs::write(folder.path().join("a.xml"), document).unwrap();
    let outcome = transformer.transform("a.xsl", "a.xml").await;
    assert!(matches!(outcome, Err(TransformError::Exceeded(limit)) if limit.contains("too long")), "{outcome:?}");

    fs::write(folder.path().join("a.xml"), format!("<a>{}</a>", "x".repeat(DOCUMENT_BYTES_MAX))).unwrap();
    let outcome = transformer.transform("a.xsl", "a.xml").await;
    assert!(matches!(outcome, Err(TransformError::TooLarge(..))));
}

/// Requests beyond the limit are refused at once; the others all get the result.
#[tokio::test]
async fn the_number_that_waits_is_bounded() {
    let folder = shipped();
    let transformer = Transformer::new(&folder, TransformerLimits { processes: 1, cpu_seconds: 5 }).unwrap();
    // Futures polled once each hold their permit.
    let mut waiting = Vec::new();
    for _ in 0..=WAITING_MAX {
        let mut future = Box::pin(transformer.transform("elements.xsl", "elements.xml"));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
        waiting.push(future);
    }
    let refused = transformer.transform("elements.xsl", "elements.xml").await;
    assert!(matches!(refused, Err(TransformError::Busy)));
    let last = waiting.pop();
    drop(waiting);
    let last = tokio::time::timeout(PATIENCE, last.unwrap()).await.expect("the last one gets its turn");
    assert_eq!(last.unwrap(), shipped_result().await);
}

#[test]
fn a_folder_that_is_missing_is_named() {
    let error = Transformer::new(Path::new("/no/such/folder"), TransformerLimits::default()).unwrap_err();
    assert!(error.to_string().starts_with("/no/such/folder: "), "{error}");
}
