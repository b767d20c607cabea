package presence

import (
	"context"
	"strings"

	"browserhost/consent/browserdb"
	"browserhost/consent/domains"
)

// Names returns the name of each cookie that the profile holds for the
// domains: as many as there are rows, so that their number is what there is to
// lend. It is what the record of a grant is made from before a value is read;
// names leave the host as keyed hashes only (AIP-63 C9). The list of domains
// must be one that a grant may have. The errors are those of [browserdb.Open].
func Names(ctx context.Context, p browserdb.Profile, granted []string) ([]string, error) {
	if _, err := domains.CheckAll(granted); err != nil {
		return nil, err
	}
	db, err := browserdb.Open(ctx, p.Cookies, hostsAndNames)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	query, args := named(granted)
	rows, err := db.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// hostsAndNames is what Names may read: two columns of the same index (K3).
func hostsAndNames(table, column string) bool {
	return onlyHosts(table, column) || table == browserdb.Table && column == "name"
}

// named selects by whole names and at the edges of labels, never by pattern (S3).
func named(granted []string) (query string, args []any) {
	parts := make([]string, len(granted))
	for i, d := range granted {
		parts[i] = "host_key = ? OR substr(host_key, -length(?)) = ?"
		args = append(args, d, "."+d, "."+d)
	}
	return "SELECT name FROM " + browserdb.Table + " WHERE " + strings.Join(parts, " OR ") + " ORDER BY host_key, name", args
}
