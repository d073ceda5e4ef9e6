//! serve: the files of a store over HTTP.

use crate::args::{Args, ServeArgs};
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[cfg(not(feature = "serve"))]
pub(crate) fn serve(_: &Args, _: &ServeArgs, _: &mut Output) -> Result<Exit, Failure> {
    Err(Failure::usage("this build has no server").explain("cargo install builds it with --features serve"))
}

/// Serves until a signal. Prints the address once the server listens.
#[cfg(feature = "serve")]
pub(crate) fn serve(args: &Args, serve: &ServeArgs, output: &mut Output) -> Result<Exit, Failure> {
    use std::net::ToSocketAddrs;

    use serde_json::json;
    use waxseal_http::{Server, ServerOptions};

    use super::location::{Access, open_files, store_of_url};

    let listen = &serve.listen;
    let addresses = listen.to_socket_addrs().map(|mut found| found.next());
    let address =
        addresses.ok().flatten().ok_or_else(|| Failure::usage(format!("{listen} is no address HOST:PORT")))?;
    if serve.token.as_ref().is_some_and(String::is_empty) {
        return Err(Failure::usage("the token is empty"));
    }
    let store = store_of_url(&serve.store);
    let files = open_files(args, &store, if serve.read_only { Access::Read } else { Access::Change })?;
    let db = files.db().clone();
    let server = Server::bind(ServerOptions {
        files,
        listen: Some(address),
        token: serve.token.clone().filter(|_| !serve.read_only),
        socket_directory: (!serve.read_only).then(|| store.clone()),
        listener: None,
    });
    let server = server.map_err(|error| Failure::io(listen, error))?;
    let address = server.address().unwrap_or(address);
    let url = format!("http://{address}/");
    output.line(format!("serving {} at {url}", store.display()))?;
    output.object(&json!({ "ok": true, "url": url }))?;
    output.flush()?;
    server.run();
    db.close()?;
    Ok(Exit::Ok)
}
