//! Macros that declare C functions and structs of one shape, as tables: name, documentation, field, conversion.
//!
//! In: a table. Out: its functions, under the contract that the header states once for all functions; the unsafe code
//! of a shape stands here once. Tables that are more than a name and a field stay functions.
//!
//! `cargo xtask header` expands the same tables, since cbindgen reads no macros (`xtask/src/header/tables.rs`). A table
//! therefore begins with the macro's name and ` {` on a line of its own and ends with `}` at the beginning of a line.
//! Documentation that does not state which threads may call the function gets the usual sentence of its shape.

/// Setters of objects that one thread at a time may use. The table begins with the macro that stores a value.
///
/// A row `fn NAME(object: *mut TYPE, argument: TYPE) => FIELD = VALUE;` computes the value first, which may fail by
/// `?`, and then stores it.
macro_rules! setters {
    ($store:ident; $(
        $(#[$doc:meta])*
        fn $name:ident($object:ident: *mut $type:ty $(, $argument:ident: $argument_type:ty)* $(,)?) =>
            $($field:ident).+ = $value:expr;
    )*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($object: *mut $type $(, $argument: $argument_type)*) -> i32 {
            $crate::call::status_of(|| {
                let value = $value;
                $crate::handle::with_mut($object.cast_const(), |object| {
                    $store!(object, value, $($field).+);
                    Ok(())
                })
            })
        }
    )*};
}
pub(crate) use setters;

/// Stores a value in a field.
macro_rules! field {
    ($object:ident, $value:ident, $($field:ident).+) => {
        $object.$($field).+ = $value
    };
}
pub(crate) use field;

/// Getters that return one value, or another one where the handle finds nothing. The table begins with the function
/// that lends the object: `with`, or `with_mut` for objects that one thread at a time may use.
macro_rules! getters {
    ($with:ident; $(
        $(#[$doc:meta])*
        fn $name:ident($object:ident: *const $type:ty) -> $result:ty =>
            |$lent:ident| $value:expr, or $otherwise:expr;
    )*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($object: *const $type) -> $result {
            $crate::call::value_of($otherwise, || $crate::handle::$with($object, |$lent| Ok($value)))
        }
    )*};
}
pub(crate) use getters;

/// Getters that write one value to a place of the caller, behind the `;` of the arguments. `None` is
/// `WAXSEAL_NOT_FOUND`.
macro_rules! finders {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($object:ident: *const $type:ty $(, $argument:ident: $argument_type:ty)*;
                       $place:ident: *mut $place_type:ty $(,)?) => |$lent:ident| $value:expr;
    )*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $object: *const $type,
            $($argument: $argument_type,)*
            $place: *mut $place_type,
        ) -> i32 {
            // SAFETY: the header asks that outputs be null or writable.
            let $place = unsafe { $crate::lent::out($place) };
            $crate::call::status_of(|| {
                $crate::handle::with($object, |$lent| {
                    let value: Option<$place_type> = $value;
                    Ok(value.map(|value| $place.set(value)).is_some())
                })
            })
        }
    )*};
}
pub(crate) use finders;

/// Functions that destroy a handle.
macro_rules! destroy {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($object:ident: *mut $type:ty);
    )*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($object: *mut $type) -> i32 {
            $crate::call::status_of(|| $crate::handle::end($object.cast_const()))
        }
    )*};
}
pub(crate) use destroy;

/// A struct that C reads, made by `of` from a value of the library. Each field has the expression behind its `=`; a
/// field without one has the value's field of the same name.
macro_rules! mirror {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident of |$from:ident: $from_type:ty| {
            $($(#[$doc:meta])* pub $field:ident: $type:ty $(= $value:expr)?,)*
        }
    ) => {
        $(#[$attribute])*
        #[repr(C)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $name {
            pub(crate) fn of($from: $from_type) -> $name {
                $name { $($field: $crate::declare::mirrored!($from.$field $(, $value)?),)* }
            }
        }
    };
}
pub(crate) use mirror;

/// The value of one field of `mirror`.
macro_rules! mirrored {
    ($from:ident.$field:ident) => {
        $from.$field
    };
    ($from:ident.$field:ident, $value:expr) => {
        $value
    };
}
pub(crate) use mirrored;
