//! `#[subset_of(..)]`, a helper attribute of `#[derive(EventData)]`: conversions from and to the
//! named enum.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DataEnum, DeriveInput, Error, Field, Fields, Path, Result, Variant};

use crate::event_data::collect;

pub(crate) fn expand(input: &DeriveInput, data: &DataEnum, krate: &Path, event_types: &[&str]) -> Result<TokenStream> {
    let attrs = input.attrs.iter().filter(|attr| attr.path().is_ident("subset_of"));
    let supersets = collect(attrs.map(|attr| {
        let superset: Path = attr
            .parse_args()
            .map_err(|_| Error::new_spanned(attr, "expected one path to an enum: #[subset_of(AppEvent)]"))?;
        if superset.is_ident(&input.ident) {
            return Err(Error::new_spanned(superset, "an enum is not a subset of itself: name the larger enum"));
        }
        Ok(superset)
    }))?;
    Ok(supersets.iter().map(|superset| expand_one(input, data, krate, event_types, superset)).collect())
}

fn expand_one(
    input: &DeriveInput,
    data: &DataEnum,
    krate: &Path,
    event_types: &[&str],
    superset: &Path,
) -> TokenStream {
    let subset = &input.ident;
    let subset_name = subset.to_string();
    let (itself, smaller, larger) = (quote!(Self), quote!(#subset), quote!(#superset));
    let narrow = data.variants.iter().map(|variant| arm(variant, &larger, &itself, Rest::Allowed));
    let widen = data.variants.iter().map(|variant| arm(variant, &smaller, &itself, Rest::None));
    let same_types = data.variants.iter().zip(event_types).map(|(variant, event_type)| {
        let message = format!(
            "`{}` has no event type {event_type:?}: give this variant the #[event(type = \"..\")] that it has there",
            larger.to_string().replace(' ', ""),
        );
        quote_spanned! {variant.ident.span()=>
            const _: () = ::core::assert!(
                #krate::__private::holds(<#superset as #krate::EventData>::EVENT_TYPES, #event_type),
                #message
            );
        }
    });
    quote! {
        #(#same_types)*

        #[automatically_derived]
        impl ::core::convert::TryFrom<#superset> for #subset {
            type Error = #krate::__private::NotInSubset;

            fn try_from(event: #superset) -> ::core::result::Result<Self, Self::Error> {
                ::core::result::Result::Ok(match event {
                    #(#narrow,)*
                    #[allow(unreachable_patterns)]
                    other => return ::core::result::Result::Err(#krate::__private::not_in_subset(&other, #subset_name)),
                })
            }
        }

        #[automatically_derived]
        impl ::core::convert::From<#subset> for #superset {
            fn from(event: #subset) -> Self {
                match event {
                    #(#widen,)*
                }
            }
        }
    }
}

/// Whether a pattern may leave out fields.
#[derive(PartialEq)]
enum Rest {
    None,
    /// Then a missing field is reported once, by the conversion that has to fill it.
    Allowed,
}

/// Generates `From::Variant { a, b } => To::Variant { a, b }`, all in the variant's place in the
/// source.
fn arm(variant: &Variant, from: &TokenStream, to: &TokenStream, rest: Rest) -> TokenStream {
    let ident = &variant.ident;
    let span = ident.span();
    let (from, to) = (respan(from, span), respan(to, span));
    match &variant.fields {
        Fields::Unit => quote_spanned!(span=> #from::#ident => #to::#ident),
        Fields::Unnamed(fields) => {
            let name = |(n, field): (usize, &Field)| format_ident!("field_{n}", span = field.ty.span());
            let names: Vec<_> = fields.unnamed.iter().enumerate().map(name).collect();
            quote_spanned!(span=> #from::#ident(#(#names),*) => #to::#ident(#(#names),*))
        }
        Fields::Named(fields) => {
            let names: Vec<_> = fields.named.iter().map(|field| &field.ident).collect();
            let dots = (rest == Rest::Allowed).then(|| quote_spanned!(span=> ..));
            quote_spanned!(span=> #from::#ident { #(#names,)* #dots } => #to::#ident { #(#names,)* })
        }
    }
}

/// Returns the tokens of a path as if written at `span`, so that the compiler reports errors there.
fn respan(path: &TokenStream, span: Span) -> TokenStream {
    let at_span = |mut token: TokenTree| {
        token.set_span(span);
        token
    };
    path.clone().into_iter().map(at_span).collect()
}
