//! Progress on standard error, only at a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over `total` steps, or a spinner that counts them. It vanishes when it is dropped or finished.
pub(crate) fn bar(label: &str, total: Option<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    let template = match total {
        Some(_) => "  {msg:<12} {bar:32} {human_pos} of {human_len}  {eta} left",
        None => "  {msg:<12} {spinner} {human_pos} files, {elapsed}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(label.to_owned());
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
