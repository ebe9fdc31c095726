// The tabs: built once, each view when it is first shown.
R.order = ["overview", "modules", "graph", "timeline", "memory", "roofline", "nodes"];

R.show = () => {
  const { view, selection } = R.address();
  for (const name of R.order) {
    const tab = document.getElementById("tab-" + name);
    if (!tab) continue;
    const here = name === view;
    tab.setAttribute("aria-selected", here);
    tab.tabIndex = here ? 0 : -1;
    document.getElementById("view-" + name).hidden = !here;
  }
  const current = R.views[view], section = document.getElementById("view-" + view);
  if (!current.built) {
    current.built = true;
    current.build(section);
  }
  current.select?.(selection);
};

R.start = (doc) => {
  R.doc = doc;
  R.spanOf = new Map(doc.timeline.spans.map((span, i) => [span.instruction, i]).filter(([k]) => k !== null));
  const tabs = document.querySelector("[role=tablist]"), main = document.getElementById("main");
  main.replaceChildren();
  for (const name of R.order.filter((name) => R.views[name].has())) {
    tabs.append(el("button", {
      role: "tab", id: "tab-" + name, "aria-controls": "view-" + name, click: () => { location.hash = name; },
    }, R.views[name].title));
    main.append(el("section", { role: "tabpanel", id: "view-" + name, "aria-labelledby": "tab-" + name, hidden: true }));
  }
  tabs.addEventListener("keydown", (event) => {
    const all = [...tabs.children], step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length];
    next.focus();
    next.click();
  });
  const facts = [doc.facts.Cycles + " cycles", doc.facts.Time, doc.coverage && percent(doc.coverage.ops) + " of ops on the chip"];
  document.getElementById("lead").textContent = facts.filter(Boolean).join(" · ");
  addEventListener("hashchange", R.show);
  R.show();
  document.body.dataset.ready = "true";
};

unpack().then(R.start).catch((error) => {
  document.getElementById("main").replaceChildren(el("p", { class: "bad" }, "The report cannot be read: " + error.message +
    ". Open it in a browser of 2023 or later, or write it again."));
  throw error;
});
