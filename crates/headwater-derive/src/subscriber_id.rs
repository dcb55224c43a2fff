//! `#[derive(SubscriberId)]`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, DeriveInput, LitStr, Path, Result, parse_quote};

use crate::attrs::{check_name, krate_or_default, set};
use crate::kebab::kebab_case;

/// The contents of `#[subscriber_id(..)]`.
#[derive(Default)]
struct Attrs {
    prefix: Option<LitStr>,
    name: Option<LitStr>,
    krate: Option<Path>,
}

impl Attrs {
    fn parse(attrs: &[Attribute]) -> Result<Self> {
        let mut parsed = Attrs::default();
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("subscriber_id")) {
            attr.parse_nested_meta(|meta| parsed.take(&meta))?;
        }
        Ok(parsed)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let text = || -> Result<LitStr> { meta.value()?.parse() };
        if meta.path.is_ident("prefix") {
            let prefix = text()?;
            check_name("prefix of a subscriber id", &prefix.value(), prefix.span())?;
            set(&mut self.prefix, prefix, meta)
        } else if meta.path.is_ident("name") {
            let name = text()?;
            check_name("subscriber id", &name.value(), name.span())?;
            set(&mut self.name, name, meta)
        } else if meta.path.is_ident("crate") {
            set(&mut self.krate, text()?.parse()?, meta)
        } else {
            let name = meta.path.to_token_stream();
            let known = "known are `prefix`, `name` and `crate`";
            Err(meta.error(format!("unknown key `{name}` in #[subscriber_id(..)]: {known}")))
        }
    }
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let attrs = Attrs::parse(&input.attrs)?;
    let krate = krate_or_default(attrs.krate.as_ref());
    let ident = &input.ident;
    let (name, span) = match &attrs.name {
        Some(name) => (name.value(), name.span()),
        None => (kebab_case(&ident.unraw().to_string()), ident.span()),
    };
    check_name("subscriber id", &name, span)?;
    let id = match &attrs.prefix {
        Some(prefix) => format!("{}:{name}", prefix.value()),
        None => name,
    };
    check_name("subscriber id", &id, span)?;

    let mut generics = input.generics.clone();
    if !generics.params.is_empty() {
        // The trait requires both, and whether the type has them depends on the parameters.
        let (_, type_generics, _) = input.generics.split_for_impl();
        let both = parse_quote!(#ident #type_generics: ::core::marker::Send + ::core::marker::Sync);
        generics.make_where_clause().predicates.push(both);
    }
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    // Spanned, so that the compiler reports a type that cannot be shared between threads at its
    // name.
    Ok(quote_spanned! {ident.span()=>
        #[automatically_derived]
        impl #impl_generics #krate::SubscriberId for #ident #type_generics #where_clause {
            fn subscriber_id(&self) -> &str {
                #id
            }
        }
    })
}
