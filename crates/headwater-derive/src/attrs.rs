//! Parses `#[event(..)]` and what all attributes share, and finds serde attributes that must not be
//! used.

use proc_macro2::{Span, TokenTree};
use quote::ToTokens;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, Error, LitInt, LitStr, Path, Result, Token, parse_quote};

/// The same as `MAX_EVENT_TYPE_BYTES` and `MAX_SUBSCRIBER_ID_BYTES` of headwater-core. That crate
/// cannot be a dependency of a macro that it is tested with.
const MAX_NAME_BYTES: usize = 255;

/// The contents of `#[event(..)]`.
#[derive(Default)]
pub(crate) struct EventAttrs {
    /// `type = ".."`.
    pub(crate) event_type: Option<LitStr>,
    /// `schema_version = ..`.
    pub(crate) schema_version: Option<u32>,
    /// `crate = ".."`.
    krate: Option<Path>,
}

/// Where an attribute stands, which decides what it may say.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Place {
    Enum,
    Struct,
    Variant,
}

impl EventAttrs {
    pub(crate) fn parse(attrs: &[Attribute], place: Place) -> Result<Self> {
        let mut parsed = EventAttrs::default();
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("event")) {
            attr.parse_nested_meta(|meta| parsed.take(&meta, place))?;
        }
        Ok(parsed)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>, place: Place) -> Result<()> {
        if meta.path.is_ident("type") {
            if place == Place::Enum {
                return Err(meta.error("an enum has an event type for each variant: put `type` on the variants"));
            }
            let name: LitStr = meta.value()?.parse()?;
            check_event_type(&name.value(), name.span())?;
            set(&mut self.event_type, name, meta)
        } else if meta.path.is_ident("schema_version") {
            let number: LitInt = meta.value()?.parse()?;
            let version = number.base10_parse()?;
            if version == 0 {
                return Err(Error::new(number.span(), "schema versions count from 1"));
            }
            set(&mut self.schema_version, version, meta)
        } else if meta.path.is_ident("crate") && place != Place::Variant {
            let path: LitStr = meta.value()?.parse()?;
            set(&mut self.krate, path.parse()?, meta)
        } else {
            let known = match place {
                Place::Enum => "`schema_version` and `crate`",
                Place::Struct => "`type`, `schema_version` and `crate`",
                Place::Variant => "`type` and `schema_version`",
            };
            let name = meta.path.to_token_stream();
            Err(meta.error(format!("unknown key `{name}` in #[event(..)]: known here are {known}")))
        }
    }

    /// The path to Headwater in generated code.
    pub(crate) fn krate(&self) -> Path {
        krate_or_default(self.krate.as_ref())
    }
}

/// Returns the path to Headwater in generated code, unless an attribute names another one.
pub(crate) fn krate_or_default(krate: Option<&Path>) -> Path {
    krate.cloned().unwrap_or_else(|| parse_quote!(::headwater))
}

pub(crate) fn set<T>(slot: &mut Option<T>, value: T, meta: &ParseNestedMeta<'_>) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error(format!("`{}` is given twice", meta.path.to_token_stream()))),
    }
}

/// Refuses a name that an append would refuse.
pub(crate) fn check_event_type(name: &str, span: Span) -> Result<()> {
    check_name("event type", name, span)
}

/// Refuses a name that the database would refuse.
pub(crate) fn check_name(what: &str, name: &str, span: Span) -> Result<()> {
    let wrong = match name {
        "" => "is empty",
        _ if name.len() > MAX_NAME_BYTES => "is longer than 255 bytes",
        _ if name.bytes().any(|b| b.is_ascii_control()) => "holds a control character",
        _ => return Ok(()),
    };
    Err(Error::new(span, format!("this {what} {wrong}: it must be 1 to 255 bytes without control characters")))
}

/// Refuses serde attributes that would change the form in which the payload is found: externally
/// tagged.
pub(crate) fn check_serde(attrs: &[Attribute], place: Place) -> Result<()> {
    let refused: &[&str] = match place {
        // A struct has no tag to change: whatever serde writes for it is the payload.
        Place::Struct => return Ok(()),
        Place::Enum => &[
            "tag",
            "content",
            "untagged",
            "rename_all",
            "from",
            "try_from",
            "into",
            "remote",
            "variant_identifier",
            "field_identifier",
        ],
        Place::Variant => &["rename", "untagged", "other", "skip", "skip_serializing", "skip_deserializing"],
    };
    match serde_keys(attrs).into_iter().find_map(|key| refused.iter().find(|name| key.is_ident(name)).zip(Some(key))) {
        Some((name, key)) => Err(Error::new(key.span(), refusal(name))),
        None => Ok(()),
    }
}

/// Returns the keys of all `#[serde(..)]`, such as `tag` of `#[serde(tag = "..")]`.
pub(crate) fn serde_keys(attrs: &[Attribute]) -> Vec<Path> {
    let mut keys = Vec::new();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
        // If this does not parse, serde reports it.
        let _ = attr.parse_nested_meta(|meta| {
            keys.push(meta.path);
            while !meta.input.is_empty() && !meta.input.peek(Token![,]) {
                meta.input.parse::<TokenTree>()?;
            }
            Ok(())
        });
    }
    keys
}

fn refusal(name: &str) -> String {
    let what = match name {
        "skip" | "skip_serializing" | "skip_deserializing" => {
            return format!("#[serde({name})] makes an event that cannot be stored and read back: remove it");
        }
        "rename" | "rename_all" => "the event type stands beside the data, not in it",
        _ => "the data is stored without a tag, beside its event type",
    };
    format!("#[serde({name})] does not go with EventData: {what}; name event types with #[event(type = \"..\")]")
}
