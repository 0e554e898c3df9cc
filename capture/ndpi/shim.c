/*
 * What the agent needs of nDPI, behind functions whose types do not change with nDPI's version.
 *
 * build.rs tries the forms that nDPI's functions had and sets:
 *   WEIR_NDPI_INPUT_INFO  whether ndpi_detection_process_packet() takes information about the flow as a 6th argument
 *   WEIR_NDPI_GUESS_FLOW  whether ndpi_guess_undetected_protocol() takes addresses and ports from the flow
 */
#include <stdint.h>
#include <string.h>

#include "ndpi_api.h"

/* What nDPI says of a flow. */
struct weir_verdict {
  uint16_t master;
  uint16_t app;
};

static struct weir_verdict verdict(ndpi_protocol protocol) {
  struct weir_verdict verdict = {protocol.master_protocol, protocol.app_protocol};
  return verdict;
}

/* Whether the library that was loaded has the interface that this file was compiled for. */
int weir_ndpi_matches(void) {
  return ndpi_get_api_version() == (u_int16_t)NDPI_API_VERSION &&
         ndpi_detection_get_sizeof_ndpi_flow_struct() == sizeof(struct ndpi_flow_struct);
}

/* The library's version; a static string. */
const char *weir_ndpi_version(void) { return ndpi_revision(); }

/* A module that knows every protocol, or NULL. Not to be called by two threads at once. */
struct ndpi_detection_module_struct *weir_ndpi_new(void) {
  struct ndpi_detection_module_struct *module = ndpi_init_detection_module(ndpi_no_prefs);
  NDPI_PROTOCOL_BITMASK all;

  if (module == NULL)
    return NULL;
  NDPI_BITMASK_SET_ALL(all);
  ndpi_set_protocol_detection_bitmask2(module, &all);
  ndpi_finalize_initialization(module);
  return module;
}

void weir_ndpi_free(struct ndpi_detection_module_struct *module) { ndpi_exit_detection_module(module); }

/* Octets of a flow's state, which begins as zeros. */
size_t weir_ndpi_flow_size(void) { return sizeof(struct ndpi_flow_struct); }

/* Frees what a flow's state points to, and makes it zeros again. */
void weir_ndpi_flow_reset(struct ndpi_flow_struct *flow) {
  ndpi_free_flow_data(flow);
  memset(flow, 0, sizeof(*flow));
}

/* Shows nDPI a packet of a flow, from its IP header on. */
struct weir_verdict weir_ndpi_packet(struct ndpi_detection_module_struct *module, struct ndpi_flow_struct *flow,
                                     const uint8_t *packet, uint16_t length, uint64_t time_ms) {
#if WEIR_NDPI_INPUT_INFO
  return verdict(ndpi_detection_process_packet(module, flow, packet, length, time_ms, NULL));
#else
  return verdict(ndpi_detection_process_packet(module, flow, packet, length, time_ms));
#endif
}

/* Whether more packets may tell more of a flow that is known already. */
int weir_ndpi_wants_more(struct ndpi_detection_module_struct *module, struct ndpi_flow_struct *flow) {
  return ndpi_extra_dissection_possible(module, flow);
}

/* What ports and IPv4 addresses, in host order, suggest; the flow has been shown a packet. */
struct weir_verdict weir_ndpi_guess(struct ndpi_detection_module_struct *module, struct ndpi_flow_struct *flow,
                                    uint8_t protocol, uint32_t src, uint16_t src_port, uint32_t dst,
                                    uint16_t dst_port) {
#if WEIR_NDPI_GUESS_FLOW
  (void)src, (void)src_port, (void)dst, (void)dst_port;
  return verdict(ndpi_guess_undetected_protocol(module, flow, protocol));
#else
  return verdict(ndpi_guess_undetected_protocol(module, flow, protocol, src, src_port, dst, dst_port));
#endif
}

/* The last word on a flow that gets no more packets; a guess where nothing was detected. */
struct weir_verdict weir_ndpi_give_up(struct ndpi_detection_module_struct *module, struct ndpi_flow_struct *flow) {
  u_int8_t guessed;
  return verdict(ndpi_detection_giveup(module, flow, 1, &guessed));
}

/* The server that a QUIC client asks for, else NULL; lives as long as the flow's state is not reset. */
const char *weir_ndpi_quic_server(const struct ndpi_flow_struct *flow, struct weir_verdict verdict, size_t *length) {
  if (verdict.master != NDPI_PROTOCOL_QUIC && verdict.app != NDPI_PROTOCOL_QUIC)
    return NULL;
  *length = strnlen(flow->host_server_name, sizeof(flow->host_server_name));
  return flow->host_server_name;
}

/* Protocols have the numbers below this one. */
uint32_t weir_ndpi_protocols(struct ndpi_detection_module_struct *module) {
  return ndpi_get_num_supported_protocols(module);
}

/* A protocol's name; lives as long as the module. */
const char *weir_ndpi_name(struct ndpi_detection_module_struct *module, uint16_t id) {
  return ndpi_get_proto_name(module, id);
}

/* The number of a protocol's category. */
uint16_t weir_ndpi_category_id(struct ndpi_detection_module_struct *module, uint16_t id) {
  ndpi_protocol protocol;

  memset(&protocol, 0, sizeof(protocol));
  protocol.app_protocol = id;
  return (uint16_t)ndpi_get_proto_category(module, protocol);
}

/* The name of a category; lives as long as the module. */
const char *weir_ndpi_category(struct ndpi_detection_module_struct *module, uint16_t category) {
  return ndpi_category_get_name(module, (ndpi_protocol_category_t)category);
}
