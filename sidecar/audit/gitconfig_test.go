package audit

import "testing"

func TestParseGitConfig(t *testing.T) {
	got, err := parseGitConfig("\uFEFF# c\n[Core] Editor = vi -x ; no\n[a \"B\\\"c\"]\r\n\tk\n\tl = \" x \" y  # z\n[D.E]\nm = 1\\\n2\nn=\"a\\tb\"#\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []setting{
		{section: "core", key: "editor", value: "vi -x"},
		{section: "a", sub: `B"c`, key: "k", bare: true},
		{section: "a", sub: `B"c`, key: "l", value: " x  y"},
		{section: "d", sub: "e", key: "m", value: "12"},
		{section: "d", sub: "e", key: "n", value: "a\tb"},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: %+v, want %+v", i, got[i], want[i])
		}
	}
	for _, bad := range []string{"x=1", "[a", "[a]\nb=\"c\n", "[a \"b]\nc=1", "[a]\n=1", "[a]\nb=\\x", "[]\na=1", "[a]\nb c", "[a b]\n"} {
		if s, err := parseGitConfig(bad); err == nil {
			t.Errorf("%q: %+v", bad, s)
		}
	}
}

func TestSettingsThatRun(t *testing.T) {
	for config, want := range map[string][2]bool{
		"[core]\nfsmonitor=true":                 {},
		"[core]\nfsmonitor":                      {},
		"[core]\nfsmonitor=x":                    {true, false},
		"[core]\naskpass=x":                      {true, false},
		"[core]\nautocrlf=true":                  {},
		"[core]\nworktree=/":                     {true, false},
		"[sequence]\neditor=x":                   {true, false},
		"[gpg \"ssh\"]\nprogram=x":               {true, false},
		"[merge \"x\"]\ndriver=x":                {true, false},
		"[mergetool \"x\"]\ncmd=x":               {true, false},
		"[remote \"x\"]\nurl=https://a.test/b":   {false, true},
		"[remote \"x\"]\nfetch=x":                {},
		"[remote \"x\"]\nuploadpack=x":           {true, false},
		"[url \"x\"]\ninsteadOf=y":               {false, true},
		"[submodule \"x\"]\nupdate=!x":           {true, false},
		"[submodule \"x\"]\nupdate=checkout":     {},
		"[user]\nname=x":                         {},
		"[branch \"x\"]\nmerge=y":                {},
		"[trailer \"x\"]\ncmd=y":                 {true, false},
		"[tar \"x\"]\ncommand=y":                 {true, false},
		"[interactive]\ndiffFilter=y":            {true, false},
		"[future \"x\"]\nsomeCommand=y":          {true, false},
		"[extensions]\npartialClone=origin":      {true, false},
		"[init]\ntemplateDir=x":                  {true, false},
		"[protocol \"ext\"]\nallow=always":       {true, false},
		"[difftool \"x\"]\npath=y":               {true, false},
		"[color]\nui=auto":                       {},
		"[sendemail]\nsmtpServer=/bin/x":         {true, false},
		"[credential]\nhelper=":                  {true, false},
		"[gc]\nauto=0":                           {},
		"[diff \"x\"]\ntextconv=y":               {true, false},
		"[diff]\nalgorithm=histogram":            {},
		"[lfs]\nstandalonetransferagent=x":       {true, false},
		"[uploadpack]\npackObjectsHook=x":        {true, false},
		"[browser \"x\"]\ncmd=y":                 {true, false},
		"[imap]\ntunnel=y":                       {true, false},
		"[alias]\nx=-c core.pager=y log":         {true, false},
		"[core]\nsshCommand=y":                   {true, false},
		"[core]\nhooksPath=":                     {true, false},
		"[includeIf \"onbranch:x\"]\npath=y":     {true, false},
		"[http]\nproxy=y":                        {false, true},
		"[filter \"lfs\"]\nrequired=true":        {},
		"[filter \"lfs\"]\nprocess=git-lfs":      {true, false},
		"[pull]\nrebase=true":                    {},
		"[rerere]\nenabled=true":                 {},
		"[core]\ngitproxy=x":                     {true, false},
		"[core]\nalternateRefsCommand=x":         {true, false},
		"[remote \"x\"]\nurl=ext::sh":            {true, true},
		"[remote \"x\"]\npushurl=-oProxyCommand": {true, true},
	} {
		s, err := parseGitConfig(config)
		if err != nil || len(s) != 1 {
			t.Fatalf("%q: %v", config, err)
		}
		if program, redirect := s[0].runs(); program != want[0] || redirect != want[1] {
			t.Errorf("%q: %v %v", config, program, redirect)
		}
	}
}
