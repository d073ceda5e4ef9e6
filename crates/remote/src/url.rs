//! URLs of object stores.

use std::io;
use std::sync::Arc;

use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreScheme};
use url::Url;

/// Connects to the object store of a URL. Returns the store whose root is the URL's path. Credentials, regions and
/// endpoints come from the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`).
///
/// Errors: `InvalidInput` for a URL that this build does not serve, or an incomplete configuration.
pub(crate) fn connect(text: &str) -> io::Result<Arc<dyn ObjectStore>> {
    let url = Url::parse(text).map_err(|error| refused(text, error))?;
    if url.scheme() == "hdfs" {
        return hdfs(text, &url);
    }
    let (scheme, path) = ObjectStoreScheme::parse(&url).map_err(|_| unsupported(text))?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refused(text, "a URL with `?` or `#`"));
    }
    match scheme {
        ObjectStoreScheme::Local => Ok(below(LocalFileSystem::new().with_fsync(true), path)),
        scheme => cloud(text, scheme, path),
    }
}

/// Returns the root of a URL, which names a bucket, a container or a host, and the name of an object below it. Only the
/// names of `http://` and `https://` are percent-encoded.
///
/// Errors: `InvalidInput` for a text without a scheme, and for an HTTP URL with a query.
pub(crate) fn split(text: &str) -> io::Result<(&str, String)> {
    let scheme = text.find("://").ok_or_else(|| unsupported(text))?;
    let end = text[scheme + 3..].find('/').map_or(text.len(), |at| scheme + 3 + at);
    let (root, path) = text.split_at(end);
    if !matches!(&text[..scheme], "http" | "https") {
        return Ok((root, path.trim_matches('/').to_owned()));
    }
    match path.contains(['?', '#']) {
        true => Err(refused(text, "a URL with `?` or `#`")),
        false => Ok((root, Path::from_url_path(path).map_err(|error| refused(text, error))?.to_string())),
    }
}

/// Places a store's root at a path in it.
fn below(store: impl ObjectStore, path: Path) -> Arc<dyn ObjectStore> {
    match path.as_ref().is_empty() {
        true => Arc::new(store),
        false => Arc::new(PrefixStore::new(store, path)),
    }
}

fn refused(text: &str, why: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{text}: {why}"))
}

fn unsupported(text: &str) -> io::Error {
    refused(text, "a URL that this build cannot open")
}

#[cfg(not(feature = "cloud"))]
fn cloud(text: &str, _: ObjectStoreScheme, _: Path) -> io::Result<Arc<dyn ObjectStore>> {
    Err(unsupported(text))
}

#[cfg(not(feature = "hdfs"))]
fn hdfs(text: &str, _: &Url) -> io::Result<Arc<dyn ObjectStore>> {
    Err(unsupported(text))
}

#[cfg(feature = "hdfs")]
fn hdfs(text: &str, url: &Url) -> io::Result<Arc<dyn ObjectStore>> {
    let path = Path::from_url_path(url.path()).map_err(|error| refused(text, error))?;
    let store = hdfs_native_object_store::HdfsObjectStoreBuilder::new().with_url(text).build();
    Ok(below(store.map_err(|error| refused(text, error))?, path))
}

#[cfg(feature = "cloud")]
fn cloud(text: &str, scheme: ObjectStoreScheme, path: Path) -> io::Result<Arc<dyn ObjectStore>> {
    use object_store::aws::AmazonS3Builder;
    use object_store::azure::MicrosoftAzureBuilder;
    use object_store::gcp::GoogleCloudStorageBuilder;
    use object_store::http::HttpBuilder;

    // An error means that the process has chosen a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let failed = |error: object_store::Error| refused(text, error);
    match scheme {
        ObjectStoreScheme::AmazonS3 => {
            let builder = AmazonS3Builder::from_env().with_url(text).with_retry(retry());
            Ok(below(builder.build().map_err(failed)?, path))
        }
        ObjectStoreScheme::GoogleCloudStorage => {
            let builder = GoogleCloudStorageBuilder::from_env().with_url(text).with_retry(retry());
            Ok(below(builder.build().map_err(failed)?, path))
        }
        ObjectStoreScheme::MicrosoftAzure => {
            let builder = MicrosoftAzureBuilder::from_env().with_url(text).with_retry(retry());
            Ok(below(builder.build().map_err(failed)?, path))
        }
        ObjectStoreScheme::Http => {
            let options = object_store::ClientOptions::new().with_allow_http(true);
            let builder = HttpBuilder::new().with_url(text).with_client_options(options).with_retry(retry());
            Ok(Arc::new(builder.build().map_err(failed)?)) // whose URL has the path
        }
        _ => Err(unsupported(text)),
    }
}

/// Returns how often a request is repeated: up to six times within a minute, on failures of the server or the network.
#[cfg(feature = "cloud")]
fn retry() -> object_store::RetryConfig {
    let retry_timeout = std::time::Duration::from_secs(60);
    object_store::RetryConfig { max_retries: 6, retry_timeout, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split_behind_the_bucket() {
        for (text, root, name) in [
            ("s3://bucket/a//b?c%20d/", "s3://bucket", "a//b?c%20d"),
            ("s3://bucket", "s3://bucket", ""),
            ("http://host:80/a%20b/c", "http://host:80", "a b/c"),
        ] {
            assert_eq!(split(text).unwrap(), (root, name.to_owned()), "{text}");
        }
        assert!(split("bucket/a").is_err() && split("https://host/a?b").is_err());
    }

    #[test]
    fn urls_that_lead_nowhere_are_refused_by_name() {
        for text in ["ftp://host/x", "nothing", "s3:bucket", "file:///tmp/x?y", "memory:///x", "hdfs2://a/b"] {
            let error = connect(text).unwrap_err();
            assert!(error.kind() == io::ErrorKind::InvalidInput && error.to_string().contains(text), "{error}");
        }
    }
}
