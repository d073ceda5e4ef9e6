//! Metadata from the XML file of a volume: METS with MARC, MODS or Dublin Core inside it, or plain elements such as
//! `<title>`. Elements are found by their local names, wherever they are, and the first one of a name counts.

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use crate::volume::{Metadata, Rights};

/// A value of the metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Id,
    Title,
    Subtitle,
    Author,
    PublishDate,
    Genre,
    Rights,
}

/// Returns the metadata of a file; `id` is that of a file that names none. Entities that a document declares are not
/// expanded. Errors: XML that is not well-formed, and an entity that XML itself does not have.
pub(crate) fn parse(xml: &str, id: &str) -> Result<Metadata, String> {
    let mut reader = Reader::from_str(xml.trim_start_matches('\u{feff}'));
    reader.config_mut().expand_empty_elements = true;
    let mut metadata = Metadata::new(id);
    let (mut found, mut open, mut text, mut marc_tag) = (Vec::new(), Vec::new(), String::new(), String::new());
    let mut is_empty = true;
    loop {
        let event = reader.read_event();
        let place = |error: &dyn std::fmt::Display| format!("{error}, before byte {}", reader.buffer_position());
        match event.map_err(|error| place(&error))? {
            Event::Start(element) => {
                let field = field_of(&element, &mut marc_tag).map_err(|error| place(&error))?;
                if open.is_empty()
                    && let Some(id) = attribute(&element, "OBJID").map_err(|error| place(&error))?
                {
                    set(&mut metadata, &mut found, Field::Id, &id);
                }
                if field.is_some() {
                    text.clear();
                }
                open.push(field);
                is_empty = false;
            }
            Event::End(_) => {
                if let Some(Some(field)) = open.pop() {
                    set(&mut metadata, &mut found, field, &text);
                    text.clear();
                }
            }
            Event::Text(part) => text.push_str(&part.xml10_content()),
            Event::CData(part) => text.push_str(&part.xml10_content()),
            Event::GeneralRef(name) => match name.resolve_char_ref().map_err(|error| place(&error))? {
                Some(char) => text.push(char),
                None => text.push_str(
                    resolve_predefined_entity(&name).ok_or_else(|| place(&format!("unknown entity {:?}", &*name)))?,
                ),
            },
            Event::Eof => break,
            _ => {}
        }
    }
    if !open.is_empty() || is_empty {
        return Err("the file ends before its last element".to_owned());
    }
    Ok(metadata)
}

/// Returns the value that an element holds.
fn field_of(element: &BytesStart<'_>, marc_tag: &mut String) -> Result<Option<Field>, String> {
    let name = element.local_name().into_inner().to_ascii_lowercase();
    Ok(match name.as_str() {
        "datafield" => {
            *marc_tag = attribute(element, "tag")?.unwrap_or_default();
            None
        }
        "subfield" => {
            let code = attribute(element, "code")?.unwrap_or_default();
            match (marc_tag.as_str(), code.as_str()) {
                ("245", "a") => Some(Field::Title),
                ("245", "b") => Some(Field::Subtitle),
                ("100" | "110", "a") => Some(Field::Author),
                ("260" | "264", "c") => Some(Field::PublishDate),
                ("655", "a") => Some(Field::Genre),
                _ => None,
            }
        }
        "id" | "volumeid" => Some(Field::Id),
        "title" => Some(Field::Title),
        "creator" | "author" | "namepart" => Some(Field::Author),
        "date" | "dateissued" | "issued" | "publishdate" | "publish_date" => Some(Field::PublishDate),
        "genre" => Some(Field::Genre),
        "rights" | "accessrights" | "copyright" => Some(Field::Rights),
        _ => None,
    })
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Result<Option<String>, String> {
    let Some(attribute) = element.try_get_attribute(name).map_err(|error| error.to_string())? else { return Ok(None) };
    let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|error| error.to_string())?;
    Ok(Some(value.into_owned()))
}

/// Sets a value, unless it is empty or an earlier element had it.
fn set(metadata: &mut Metadata, found: &mut Vec<Field>, field: Field, text: &str) {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() || found.contains(&field) {
        return;
    }
    found.push(field);
    match field {
        Field::Id => metadata.id = text,
        Field::Title => metadata.title = Some(text),
        Field::Subtitle => {
            metadata.title = Some(match metadata.title.take() {
                Some(title) => format!("{title} {text}"),
                None => text,
            });
        }
        Field::Author => metadata.author = Some(text),
        Field::PublishDate => metadata.publish_date = Some(text),
        Field::Genre => metadata.genre = Some(text),
        Field::Rights => metadata.rights = Rights::parse(&text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METS: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<METS:mets xmlns:METS="http://www.loc.gov/METS/" OBJID="mdp.390">
  <METS:dmdSec ID="DMD1"><METS:mdWrap MDTYPE="MARC"><METS:xmlData><record>
    <datafield tag="100"><subfield code="a">Gibbon, Edward</subfield><subfield code="d">1737</subfield></datafield>
    <datafield tag="245"><subfield code="a">Decline &amp; fall</subfield><subfield code="b">of
      the <![CDATA[Roman]]> &#x45;mpire</subfield></datafield>
    <datafield tag="260"><subfield code="c">c1776.</subfield></datafield>
    <datafield tag="655"><subfield code="a">History</subfield></datafield>
  </record></METS:xmlData></METS:mdWrap></METS:dmdSec>
  <METS:amdSec><rights>pd</rights><rights>ic</rights></METS:amdSec>
</METS:mets>"#;

    #[test]
    fn values_of_mets_with_marc_are_found() {
        let metadata = parse(METS, "directory").unwrap();
        assert_eq!((metadata.id.as_str(), metadata.rights), ("mdp.390", Rights::PublicDomain));
        assert_eq!(metadata.author.as_deref(), Some("Gibbon, Edward"));
        assert_eq!(metadata.title.as_deref(), Some("Decline & fall of the Roman Empire"));
        assert_eq!(metadata.publish_date.as_deref(), Some("c1776."));
        assert_eq!(metadata.genre.as_deref(), Some("History"));
    }

    #[test]
    fn values_of_plain_elements_are_found() {
        let xml = "<volume><dc:title>Emma</dc:title><creator>Austen</creator><publishDate>1815</publishDate>\
                   <genre></genre><copyright>public</copyright><title>second</title></volume>";
        let metadata = parse(xml, "directory").unwrap();
        assert_eq!((metadata.id.as_str(), metadata.title.as_deref()), ("directory", Some("Emma")));
        assert_eq!((metadata.author.as_deref(), metadata.genre.as_deref()), (Some("Austen"), None));
        assert_eq!((metadata.year(), metadata.rights), (Some(1815), Rights::PublicDomain));
    }

    #[test]
    fn broken_and_hostile_files_are_refused() {
        let refused = |xml: &str| parse(xml, "directory").unwrap_err();
        for cut in 40..METS.len() {
            let error = refused(&METS[..cut]);
            assert!(!error.is_empty(), "cut at {cut}");
        }
        assert_eq!(refused(""), "the file ends before its last element");
        assert_eq!(refused("no markup"), "the file ends before its last element");
        assert!(refused("<a><title>x</b></a>").contains("before byte"));
        let laughs = "<!DOCTYPE a [<!ENTITY b \"bb\"><!ENTITY c \"&b;&b;\">]><a><title>&c;</title></a>";
        assert!(refused(laughs).starts_with("unknown entity \"c\""), "{}", refused(laughs));
        let outside = "<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><a><title>&x;</title></a>";
        assert!(refused(outside).starts_with("unknown entity \"x\""));
        let deep = "<a>".repeat(100_000);
        assert_eq!(refused(&deep), "the file ends before its last element");
    }
}
