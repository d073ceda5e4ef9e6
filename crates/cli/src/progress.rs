//! Progress on standard error, only at a terminal.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use waxseal::care::Progress;

/// Returns a bar over `total` steps, or a spinner that counts them in `unit`. It vanishes when it is dropped or
/// finished.
pub(crate) fn bar(label: &str, total: Option<u64>, unit: &str) -> ProgressBar {
    let template = match total {
        Some(_) => "  {msg:<12} {bar:32} {human_pos} of {human_len}  {eta} left".to_owned(),
        None => format!("  {{msg:<12}} {{spinner}} {{human_pos}} {unit}, {{elapsed}}"),
    };
    draw(label, total, &template)
}

/// Returns a callback that shows the progress of a pass over a store, in bytes. The bar vanishes with the closure.
pub(crate) fn watch(label: &str) -> impl FnMut(Progress) -> ControlFlow<()> + use<> {
    let bar = draw(label, Some(0), "  {msg:<12} {bar:32} {binary_bytes} of {binary_total_bytes}  {eta} left");
    move |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        ControlFlow::Continue(())
    }
}

fn draw(label: &str, total: Option<u64>, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(label.to_owned());
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
