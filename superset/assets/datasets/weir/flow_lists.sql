-- The lists of flows that the jobs write.
SELECT arrayJoin({{ flow_lists() }}) AS flow_list
