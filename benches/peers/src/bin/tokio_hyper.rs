//! The hello server as people write it with Tokio and hyper: a task per connection on the multi-threaded runtime.
//!
//! ```text
//! cargo run --release --bin tokio_hyper -- --addr 127.0.0.1:8081 --workers 2
//! ```
//!
//! It answers every request with the headers and the body that volt's HTTP example gives to `GET /`; hyper adds
//! Content-Length and Date itself. What it does not have: deadlines, limits other than hyper's own, a clean shutdown.

use std::convert::Infallible;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use volt_peers::Options;

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(volt_peers::BODY)));
    let kind = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

async fn serve(addr: &str) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind(addr).await?;
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            // An error here is the peer's: it has gone away or does not speak HTTP.
            let _ = http1::Builder::new()
                .pipeline_flush(true)
                .serve_connection(TokioIo::new(stream), service_fn(hello))
                .await;
        });
    }
}

fn main() -> std::io::Result<()> {
    let options = Options::from_args();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.workers)
        .enable_io()
        .build()?
        .block_on(serve(&options.addr))
}
