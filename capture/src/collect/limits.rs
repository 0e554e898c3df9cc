//! Bounds on the state that exporters can create in a decoder, and on the times that it accepts.

/// Maximum state kept about exporters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Exporters, each observation domain counted separately.
    pub exporters: usize,
    /// Sessions of one exporter, one for each port.
    pub sessions: usize,
    /// Templates of one session.
    pub templates: usize,
    /// Fields of one template, and of the templates of all exporters together, where each template counts as eight more.
    /// A field takes some 50 octets.
    pub fields: usize,
    pub all_fields: usize,
    /// Sampling rates of one session, sources of samples of one exporter, and both of all exporters together. A source
    /// takes some 200 octets.
    pub options: usize,
    pub all_options: usize,
    /// Flows of one exporter whose last totals are certainly kept (up to half as many more may be), and of all
    /// exporters together. Each takes some 100 octets.
    pub flows: usize,
    pub all_flows: usize,
    /// Datagrams remembered to recognise their copies, of all exporters together.
    pub datagrams: usize,
    /// Octets of records that wait for their template, of all exporters together.
    pub waiting_octets: usize,
    /// How long such records wait, ms.
    pub waiting_ms: i64,
    /// How far an exporter's clock may be off before its times are moved to this host's, ms.
    pub clock_error_ms: i64,
    /// How long before its export a record may have begun, or ended, ms.
    pub flow_ms: i64,
}

impl DecodeLimits {
    /// Correction to add to the times of an exporter whose clock is behind by this many ms: none if it is nearly right.
    pub fn correction_ms(&self, behind_ms: i64) -> i64 {
        if behind_ms.saturating_abs() > self.clock_error_ms { behind_ms } else { 0 }
    }
}

impl Default for DecodeLimits {
    fn default() -> DecodeLimits {
        DecodeLimits {
            exporters: 4096,
            sessions: 16,
            templates: 1024,
            fields: 512,
            all_fields: 1 << 20,
            options: 1024,
            all_options: 1 << 18,
            // A hash table of a power of 2 is full at seven eighths.
            flows: 7 << 15,
            all_flows: 7 << 17,
            datagrams: 1 << 20,
            waiting_octets: 4 << 20,
            waiting_ms: 60_000,
            clock_error_ms: 3_600_000,
            flow_ms: 24 * 3_600_000,
        }
    }
}
