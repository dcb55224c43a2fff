//! `#[subset_enum(Name, Variant, ..)]`: generates a smaller enum beside the annotated one.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Field, Fields, ItemEnum, Path, Result, Token, Variant, parenthesized, parse_quote};

use crate::attrs::{EventAttrs, Place, serde_keys};
use crate::event_data::collect;

/// What `EventData` requires of a type besides itself. All of it is derivable.
const NEEDED: [&str; 4] = ["Clone", "Debug", "Serialize", "Deserialize"];

struct Args {
    subset: Ident,
    variants: Vec<Ident>,
    derives: Vec<Path>,
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.is_empty() {
            return Err(input.error("expected the subset's name and its variants: #[subset_enum(Name, Variant, ..)]"));
        }
        let mut args = Args { subset: input.parse()?, variants: Vec::new(), derives: Vec::new() };
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            let name: Ident = input.parse()?;
            if name == "derive" && input.peek(syn::token::Paren) {
                let content;
                parenthesized!(content in input);
                args.derives.extend(Punctuated::<Path, Token![,]>::parse_terminated(&content)?);
            } else {
                args.variants.push(name);
            }
        }
        if args.variants.is_empty() {
            let message =
                format!("subset `{}` has no variants: name those of the enum that it should hold", args.subset);
            return Err(Error::new(args.subset.span(), message));
        }
        Ok(args)
    }
}

/// The item always comes out as it went in: an error here must not hide the enum from the rest of
/// the program.
pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let subset = expand_subset(args, item.clone()).unwrap_or_else(Error::into_compile_error);
    quote!(#item #subset)
}

fn expand_subset(args: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let args: Args = syn::parse2(args)?;
    let item: ItemEnum = syn::parse2(item)
        .map_err(|error| Error::new(error.span(), format!("#[subset_enum(..)] stands on an enum: {error}")))?;
    if args.subset == item.ident {
        return Err(Error::new(args.subset.span(), "the subset needs a name of its own: this is the enum's"));
    }
    if !item.generics.params.is_empty() {
        return Err(Error::new_spanned(&item.generics, "#[subset_enum(..)] does not work on a generic enum"));
    }
    let variants = pick(&args, &item)?;
    let krate = EventAttrs::parse(&item.attrs, Place::Enum)?.krate();
    let declared = declare(&args, &item, &variants, &krate)?;
    let conversions = convert(&args.subset, &item, &variants, &krate);
    Ok(quote!(#declared #conversions))
}

/// Returns the named variants, in the enum's order.
fn pick<'a>(args: &Args, item: &'a ItemEnum) -> Result<Vec<&'a Variant>> {
    let is_known = |name: &Ident| item.variants.iter().any(|variant| variant.ident == *name);
    collect(args.variants.iter().enumerate().map(|(at, name)| {
        if !is_known(name) {
            let known: Vec<_> = item.variants.iter().map(|variant| format!("`{}`", variant.ident)).collect();
            let message = format!("`{}` has no variant `{name}`: it has {}", item.ident, known.join(", "));
            return Err(Error::new(name.span(), message));
        }
        if args.variants[..at].contains(name) {
            return Err(Error::new(name.span(), format!("variant `{name}` is named twice")));
        }
        Ok(())
    }))?;
    Ok(item.variants.iter().filter(|variant| args.variants.contains(&variant.ident)).collect())
}

fn declare(args: &Args, item: &ItemEnum, variants: &[&Variant], krate: &Path) -> Result<TokenStream> {
    let ItemEnum { ident: superset, vis, .. } = item;
    let subset = &args.subset;
    let has_default = variants.iter().any(|variant| variant.attrs.iter().any(|attr| attr.path().is_ident("default")));
    let mut derives = Vec::new();
    for attr in item.attrs.iter().filter(|attr| attr.path().is_ident("derive")) {
        derives.extend(attr.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated)?);
    }
    derives.extend(args.derives.iter().cloned());
    derives.retain(|path| has_default || !is_named(path, "Default"));

    // Derives above this attribute are hidden from it, so add what is needed and not visible. Add
    // it by path, because nothing needs to be imported here. Add `EventData` as its code, because
    // the user chooses its path.
    let private = quote!(#krate::__private);
    let mut attrs: Vec<Attribute> = Vec::new();
    let mut added_serde = false;
    for name in NEEDED.iter().filter(|name| !derives.iter().any(|path| is_named(path, name))).collect::<Vec<_>>() {
        let ident = format_ident!("{name}");
        derives.push(match *name {
            "Clone" => parse_quote!(::core::clone::Clone),
            "Debug" => parse_quote!(::core::fmt::Debug),
            _ => {
                added_serde = true;
                parse_quote!(#private::serde::#ident)
            }
        });
    }
    if added_serde && !serde_keys(&item.attrs).iter().any(|key| key.is_ident("crate")) {
        let path = quote!(#private::serde).to_string().replace(' ', "");
        attrs.push(parse_quote!(#[serde(crate = #path)]));
    }
    let not_copied = ["derive", "subset_enum", "subset_of"];
    let copied = item.attrs.iter().filter(|attr| !not_copied.iter().any(|name| is_named(attr.path(), name)));
    attrs.extend(copied.cloned());

    let summary = format!(" The events of [`{superset}`] that `{subset}` holds.");
    let declaration = quote! {
        #[doc = #summary]
        #[doc = ""]
        #[derive(#(#derives),*)]
        #(#attrs)*
        #vis enum #subset { #(#variants,)* }
    };
    if derives.iter().any(|path| is_named(path, "EventData")) {
        return Ok(declaration);
    }
    let data_impl = crate::event_data::expand(&parse_quote! {
        #(#attrs)*
        #vis enum #subset { #(#variants,)* }
    })?;
    Ok(quote!(#declaration #data_impl))
}

fn is_named(path: &Path, name: &str) -> bool {
    path.segments.last().is_some_and(|segment| segment.ident == name)
}

fn convert(subset: &Ident, item: &ItemEnum, variants: &[&Variant], krate: &Path) -> TokenStream {
    let superset = &item.ident;
    let subset_name = subset.to_string();
    let narrow = variants.iter().map(|variant| arm(variant, superset, subset));
    let widen = variants.iter().map(|variant| arm(variant, subset, superset));
    let others = (variants.len() < item.variants.len()).then(|| {
        quote! {
            // This arm may be unreachable, because variants of the enum can be configured out.
            #[allow(unreachable_patterns)]
            other => return ::core::result::Result::Err(#krate::__private::not_in_subset(&other, #subset_name)),
        }
    });
    quote! {
        #[automatically_derived]
        impl ::core::convert::From<#subset> for #superset {
            fn from(event: #subset) -> Self {
                match event { #(#widen,)* }
            }
        }

        #[automatically_derived]
        impl ::core::convert::TryFrom<#superset> for #subset {
            type Error = #krate::__private::NotInSubset;

            fn try_from(event: #superset) -> ::core::result::Result<Self, Self::Error> {
                ::core::result::Result::Ok(match event { #(#narrow,)* #others })
            }
        }
    }
}

/// Generates `From::Variant { a, b } => To::Variant { a, b }`, under the same `#[cfg]`s as the
/// variant and its fields.
fn arm(variant: &Variant, from: &Ident, to: &Ident) -> TokenStream {
    let ident = &variant.ident;
    let cfgs = cfgs_of(&variant.attrs);
    match &variant.fields {
        Fields::Unit => quote!(#(#cfgs)* #from::#ident => #to::#ident),
        Fields::Unnamed(fields) => {
            let names: Vec<_> = (0..fields.unnamed.len()).map(|n| format_ident!("field_{n}")).collect();
            quote!(#(#cfgs)* #from::#ident(#(#names),*) => #to::#ident(#(#names),*))
        }
        Fields::Named(fields) => {
            let names = |field: &Field| {
                let (name, cfgs) = (&field.ident, cfgs_of(&field.attrs));
                quote!(#(#cfgs)* #name)
            };
            let names: Vec<_> = fields.named.iter().map(names).collect();
            quote!(#(#cfgs)* #from::#ident { #(#names),* } => #to::#ident { #(#names),* })
        }
    }
}

fn cfgs_of(attrs: &[Attribute]) -> Vec<&Attribute> {
    attrs.iter().filter(|attr| attr.path().is_ident("cfg")).collect()
}
