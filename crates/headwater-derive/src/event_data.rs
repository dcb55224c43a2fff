//! `#[derive(EventData)]`.

use std::collections::HashMap;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Attribute, Data, DataEnum, DataStruct, DeriveInput, Error, Fields, Path, Result};

use crate::attrs::{EventAttrs, Place, check_event_type, check_serde};
use crate::subset_of;

/// A variant, or the struct itself.
struct Shape<'a> {
    ident: &'a Ident,
    /// The tag that serde uses.
    tag: String,
    event_type: String,
    /// Where the event type is written, for errors.
    span: Span,
    schema_version: u32,
    is_unit: bool,
}

impl<'a> Shape<'a> {
    fn new(ident: &'a Ident, fields: &Fields, attrs: EventAttrs, default_version: u32) -> Result<Self> {
        let tag = ident.unraw().to_string();
        let (event_type, span) = match &attrs.event_type {
            Some(name) => (name.value(), name.span()),
            None => (tag.clone(), ident.span()),
        };
        check_event_type(&event_type, span)?;
        Ok(Shape {
            ident,
            tag,
            event_type,
            span,
            schema_version: attrs.schema_version.unwrap_or(default_version),
            is_unit: matches!(fields, Fields::Unit),
        })
    }

    /// Generates the `Shape` of headwater-core's `__private`.
    fn expand(&self, krate: &Path) -> TokenStream {
        let Shape { tag, is_unit, schema_version, .. } = self;
        quote!(#krate::__private::Shape { tag: #tag, is_unit: #is_unit, schema_version: #schema_version })
    }
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    if !input.generics.params.is_empty() {
        let message = "EventData cannot be derived for a generic type: an event type stands for one shape of data";
        return Err(Error::new_spanned(&input.generics, message));
    }
    match &input.data {
        Data::Enum(data) => expand_enum(input, data),
        Data::Struct(data) => expand_struct(input, data),
        Data::Union(data) => {
            Err(Error::new(data.union_token.span, "EventData cannot be derived for a union: use an enum or a struct"))
        }
    }
}

fn expand_enum(input: &DeriveInput, data: &DataEnum) -> Result<TokenStream> {
    let attrs = EventAttrs::parse(&input.attrs, Place::Enum)?;
    let krate = attrs.krate();
    check_serde(&input.attrs, Place::Enum)?;
    if data.variants.is_empty() {
        return Err(Error::new(input.ident.span(), "an enum without variants holds no event: add a variant"));
    }
    let default_version = attrs.schema_version.unwrap_or(1);
    // Report all errors at once: each variant is checked by itself.
    let shapes = collect(data.variants.iter().map(|variant| {
        check_serde(&variant.attrs, Place::Variant)?;
        refuse_subset_of(&variant.attrs)?;
        let attrs = EventAttrs::parse(&variant.attrs, Place::Variant)?;
        Shape::new(&variant.ident, &variant.fields, attrs, default_version)
    }))?;
    refuse_duplicates(&shapes)?;

    let private = quote!(#krate::__private);
    let encode = shapes.iter().map(|shape| {
        let Shape { ident, tag, .. } = shape;
        quote!(Self::#ident { .. } => #private::encode_variant(self, #tag))
    });
    let decode = shapes.iter().map(|shape| {
        let event_type = &shape.event_type;
        let shape = shape.expand(&krate);
        quote!(#event_type => #private::decode_variant(event_type, schema_version, #shape, data))
    });
    let body = Body {
        event_type: match_self(&shapes, |shape| {
            let event_type = &shape.event_type;
            quote!(#event_type)
        }),
        schema_version: match_self(&shapes, |shape| {
            let schema_version = shape.schema_version;
            quote!(#schema_version)
        }),
        encode: quote!(match self { #(#encode,)* }),
        decode: quote!(#(#decode,)*),
    };
    let event_types: Vec<&str> = shapes.iter().map(|shape| shape.event_type.as_str()).collect();
    let data_impl = body.expand(&input.ident, &krate, &event_types);
    let subsets = subset_of::expand(input, data, &krate, &event_types)?;
    Ok(quote!(#data_impl #subsets))
}

fn expand_struct(input: &DeriveInput, data: &DataStruct) -> Result<TokenStream> {
    let attrs = EventAttrs::parse(&input.attrs, Place::Struct)?;
    let krate = attrs.krate();
    check_serde(&input.attrs, Place::Struct)?;
    refuse_subset_of(&input.attrs)?;
    let shape = Shape::new(&input.ident, &data.fields, attrs, 1)?;
    let Shape { event_type, schema_version, .. } = &shape;
    let expanded_shape = shape.expand(&krate);
    let private = quote!(#krate::__private);
    let body = Body {
        event_type: quote!(#event_type),
        schema_version: quote!(#schema_version),
        encode: quote!(#krate::Json::encode(self)),
        decode: quote!(#event_type => #private::decode_struct(event_type, schema_version, #expanded_shape, data),),
    };
    Ok(body.expand(&input.ident, &krate, &[event_type]))
}

/// The code that differs between an enum and a struct.
struct Body {
    event_type: TokenStream,
    schema_version: TokenStream,
    encode: TokenStream,
    /// Arms of the match on the event type.
    decode: TokenStream,
}

impl Body {
    fn expand(&self, ident: &Ident, krate: &Path, event_types: &[&str]) -> TokenStream {
        let Body { event_type, schema_version, encode, decode } = self;
        // Spanned, so that the compiler reports a missing serde derive at the type's name.
        quote_spanned! {ident.span()=>
            #[automatically_derived]
            impl #krate::EventData for #ident {
                const EVENT_TYPES: &'static [&'static str] = &[#(#event_types),*];

                fn event_type(&self) -> &'static str {
                    #event_type
                }

                fn schema_version(&self) -> u32 {
                    #schema_version
                }

                fn encode(&self) -> ::core::result::Result<#krate::Json, #krate::__private::JsonError> {
                    #encode
                }

                fn decode(
                    event_type: &str,
                    schema_version: u32,
                    data: &#krate::Json,
                ) -> ::core::result::Result<Self, #krate::__private::DecodeError> {
                    match event_type {
                        #decode
                        _ => ::core::result::Result::Err(#krate::__private::unknown_type::<Self>(event_type)),
                    }
                }
            }
        }
    }
}

fn match_self(shapes: &[Shape<'_>], value: impl Fn(&Shape<'_>) -> TokenStream) -> TokenStream {
    let arms = shapes.iter().map(|shape| {
        let (ident, value) = (shape.ident, value(shape));
        quote!(Self::#ident { .. } => #value)
    });
    quote!(match self { #(#arms,)* })
}

fn refuse_duplicates(shapes: &[Shape<'_>]) -> Result<()> {
    let mut seen = HashMap::new();
    collect(shapes.iter().map(|shape| match seen.insert(&shape.event_type, shape.ident) {
        None => Ok(()),
        Some(first) => {
            let name = &shape.event_type;
            Err(Error::new(shape.span, format!("event type {name:?} is already that of variant `{first}`")))
        }
    }))
    .map(drop)
}

fn refuse_subset_of(attrs: &[Attribute]) -> Result<()> {
    match attrs.iter().find(|attr| attr.path().is_ident("subset_of")) {
        None => Ok(()),
        Some(attr) => Err(Error::new_spanned(attr, "#[subset_of(..)] stands on an enum")),
    }
}

/// Returns the values, or all errors in one.
pub(crate) fn collect<T>(results: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    let mut values = Vec::new();
    let mut errors: Option<Error> = None;
    for result in results {
        match (result, &mut errors) {
            (Ok(value), _) => values.push(value),
            (Err(error), Some(errors)) => errors.combine(error),
            (Err(error), None) => errors = Some(error),
        }
    }
    errors.map_or(Ok(values), Err)
}
