SELECT arrayJoin(['in', 'out', 'internal', 'transit', 'unknown']) AS direction
