// Package presence says how many cookies a browser profile holds for each
// site, so that a person can see what a grant would lend before anything is
// lent.
//
// [Count] looks at one column, the host of each cookie, and [Names] at one
// more. Values are not read: the connection is refused them by SQLite itself
// (AIP-63 C5, K3), and no keychain is asked, since nothing here could use a key.
package presence

import (
	"cmp"
	"context"
	"slices"

	"browserhost/consent/browserdb"
	"browserhost/consent/domains"
)

// Site is what a profile holds for one site.
type Site struct {
	Domain  string         // shop.test
	Cookies int            // rows as they are stored, expired ones included
	Hosts   map[string]int // the hosts as they are stored: .shop.test, app.shop.test
}

// Count scans the profile once. With wanted it answers for exactly these
// domains, in their order, also where there is nothing; a cookie below two of
// them counts for both. Without (nil) it answers for every site that has a
// cookie, by registrable domain, in alphabetical order. A host without one, such
// as an address, stands for itself.
//
// It may be called as often as a person asks, and by no other cause: not at
// start, not when a request is filed (K3). It ends with ctx. The errors are
// those of [browserdb.Open].
func Count(ctx context.Context, p browserdb.Profile, wanted []string) ([]Site, error) {
	hosts, err := count(ctx, p.Cookies)
	if err != nil {
		return nil, err
	}
	if wanted == nil {
		return fold(hosts), nil
	}
	sites := make([]Site, len(wanted))
	for i, domain := range wanted {
		sites[i] = Site{Domain: domain, Hosts: map[string]int{}}
		for host, n := range hosts {
			if domains.Covers(domain, host) {
				sites[i].add(host, n)
			}
		}
	}
	return sites, nil
}

func (s *Site) add(host string, n int) {
	s.Hosts[host] += n
	s.Cookies += n
}

func fold(hosts map[string]int) []Site {
	at := map[string]int{}
	var sites []Site
	for host, n := range hosts {
		domain := domains.Site(host)
		i, ok := at[domain]
		if !ok {
			i = len(sites)
			at[domain] = i
			sites = append(sites, Site{Domain: domain, Hosts: map[string]int{}})
		}
		sites[i].add(host, n)
	}
	slices.SortFunc(sites, func(a, b Site) int { return cmp.Compare(a.Domain, b.Domain) })
	return sites
}

// onlyHosts is the whole of what Count may read (AIP-63 C5).
func onlyHosts(table, column string) bool {
	return table == browserdb.Table && column == "host_key"
}

// byHost is answered from an index; no page with a value on it is fetched.
const byHost = "SELECT host_key, COUNT(*) FROM " + browserdb.Table + " GROUP BY host_key"

func count(ctx context.Context, path string) (map[string]int, error) {
	db, err := browserdb.Open(ctx, path, onlyHosts)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.Query(ctx, byHost)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	hosts := map[string]int{}
	for rows.Next() {
		var host string
		var n int
		if err := rows.Scan(&host, &n); err != nil {
			return nil, err
		}
		hosts[host] = n
	}
	return hosts, rows.Err()
}
