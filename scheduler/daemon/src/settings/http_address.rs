//! Settings of what is served over HTTP, and the form of its address.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// What is served to whom beyond the owner.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct HttpSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpAddress>,
    /// On the address as well.
    pub web_page: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http_hosts: Vec<String>,
}

/// `[ADDRESS:]PORT`; without an address this machine only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HttpAddress(pub SocketAddr);

/// The text is neither a port nor an address with a port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no address: give a port, such as 9690, or 127.0.0.1:9690")]
pub struct InvalidAddress {
    pub text: String,
}

impl FromStr for HttpAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<HttpAddress, InvalidAddress> {
        let port =
            text.parse::<u16>().ok().map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        port.or_else(|| text.parse().ok())
            .map(HttpAddress)
            .ok_or_else(|| InvalidAddress { text: text.to_owned() })
    }
}

impl TryFrom<String> for HttpAddress {
    type Error = InvalidAddress;

    fn try_from(text: String) -> Result<HttpAddress, InvalidAddress> {
        text.parse()
    }
}

impl From<HttpAddress> for String {
    fn from(address: HttpAddress) -> String {
        address.0.to_string()
    }
}
