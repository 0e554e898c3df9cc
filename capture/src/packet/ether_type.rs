//! EtherTypes (IEEE 802; `linux/if_ether.h`).

pub const IPV4: u16 = libc::ETH_P_IP as u16;
pub const IPV6: u16 = libc::ETH_P_IPV6 as u16;

/// VLAN tags: those of IEEE 802.1Q and 802.1ad, and three that switches used before 802.1ad.
pub const VLAN: u16 = libc::ETH_P_8021Q as u16;
pub const SERVICE_VLAN: u16 = libc::ETH_P_8021AD as u16;
pub const QINQ1: u16 = libc::ETH_P_QINQ1 as u16;
pub const QINQ2: u16 = libc::ETH_P_QINQ2 as u16;
pub const QINQ3: u16 = libc::ETH_P_QINQ3 as u16;

/// MPLS labels: unicast, and multicast (RFC 5332).
pub const MPLS: u16 = libc::ETH_P_MPLS_UC as u16;
pub const MPLS_MULTICAST: u16 = libc::ETH_P_MPLS_MC as u16;

pub const PPPOE_SESSION: u16 = libc::ETH_P_PPP_SES as u16;

/// Payloads of tunnels: an Ethernet frame (RFC 1701), a PPP frame (RFC 2637).
pub const BRIDGED_ETHERNET: u16 = libc::ETH_P_TEB as u16;
pub const PPP: u16 = 0x880b;
/// Mirrored frames: ERSPAN I and II, and III (draft-foschiano-erspan-03).
pub const ERSPAN: u16 = 0x88be;
pub const ERSPAN_3: u16 = 0x22eb;

/// Provider backbone bridging (IEEE 802.1ah).
pub const BACKBONE: u16 = libc::ETH_P_8021AH as u16;
/// Cisco FabricPath.
pub const FABRIC_PATH: u16 = 0x8903;
/// VN-Tag (IEEE 802.1BR's forerunner), and IEEE 802.1BR's E-Tag.
pub const VN_TAG: u16 = 0x8926;
pub const E_TAG: u16 = 0x893f;
/// Cisco MetaData.
pub const CISCO_METADATA: u16 = 0x8909;
/// Network service header (RFC 8300).
pub const SERVICE_HEADER: u16 = 0x894f;
