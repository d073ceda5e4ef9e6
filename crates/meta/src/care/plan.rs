//! Decisions of repair, over values alone.
