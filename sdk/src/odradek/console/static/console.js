// The console's islands. Every page works without them, except live charts, searches and tails.
//
// HTML comes from this server alone, where every value was escaped; it enters the page through one Trusted Types policy.

const policy = globalThis.trustedTypes?.createPolicy("odradek", { createHTML: (html) => html });
const trusted = (html) => (policy ? policy.createHTML(html) : html);
const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

function fragment(html) {
  const template = document.createElement("template");
  template.innerHTML = trusted(html);
  return template.content;
}

function debounced(work, ms) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), ms);
  };
}

const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

// --- lists: filter while typing, without leaving the page -------------------------------------------------------------

for (const form of $$("form[data-live]")) {
  let asked = 0;
  const load = debounced(async () => {
    const mine = ++asked;
    const query = new URLSearchParams(new FormData(form));
    for (const [name, value] of [...query]) if (!value) query.delete(name);
    const url = `${form.getAttribute("action")}?${query}`;
    const answer = await fetch(url);
    const page = new DOMParser().parseFromString(trusted(await answer.text()), "text/html");
    if (mine !== asked) return; // a later filter was answered first
    const fresh = page.getElementById(form.dataset.live);
    if (fresh) document.getElementById(form.dataset.live).replaceChildren(...fresh.childNodes);
    else document.getElementById(form.dataset.live).replaceChildren(...page.querySelectorAll(".problem"));
    history.replaceState(null, "", url);
    complete();
  }, 150);
  form.addEventListener("input", load);
}

for (const input of $$("[data-filter-rows]")) {
  input.addEventListener("input", () => {
    const part = input.value.toLowerCase();
    for (const row of $$("tbody tr", document.getElementById(input.dataset.filterRows))) {
      row.hidden = !row.textContent.toLowerCase().includes(part);
    }
  });
  input.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
}

// --- parts that change by themselves: asked for again while the page is seen and no text is selected -----------------

const fresh = $$("[data-refresh]");
if (fresh.length) {
  const last = new Map(); // the server's HTML of each part: what is shown has local times and labels, too
  const every = 1000 * Math.min(...fresh.map((each) => Number(each.dataset.refresh)));
  const look = async () => {
    if (document.hidden || !getSelection().isCollapsed || fresh.some((each) => each.contains(document.activeElement))) return;
    const answer = await fetch(location.href).catch(() => undefined);
    if (!answer?.ok || answer.redirected) return;
    const page = new DOMParser().parseFromString(trusted(await answer.text()), "text/html");
    for (const part of fresh) {
      const found = page.getElementById(part.id);
      if (!found || found.innerHTML === last.get(part)) continue;
      last.set(part, found.innerHTML);
      part.replaceChildren(...found.childNodes);
    }
    complete();
  };
  setInterval(look, every);
}

// --- forms ------------------------------------------------------------------------------------------------------------

for (const input of $$("[data-confirm]")) {
  const button = $("button", input.form);
  const check = () => (button.disabled = input.value !== input.dataset.confirm);
  input.addEventListener("input", check);
  check();
}

for (const form of $$("form[method=post]")) {
  form.addEventListener("submit", () => setTimeout(() => $$("button", form).forEach((each) => (each.disabled = true))));
}
addEventListener("pageshow", (event) => event.persisted && location.reload()); // forms of a remembered page are spent

for (const input of $$("input[type=file][data-into]")) {
  input.addEventListener("change", async () => {
    const [file] = input.files;
    if (file) input.form.elements[input.dataset.into].value = await file.text();
  });
}

for (const form of $$("form[data-check]")) {
  const typed = form.elements.text ?? $("[data-typed]", form);
  const check = debounced(async () => {
    const body = new URLSearchParams(new FormData(form));
    if ((form.elements.subject && !body.get("subject")) || !typed.value.trim()) return;
    body.set("fragment", "1");
    const answer = await fetch(form.dataset.check, { method: "POST", body });
    if (answer.ok) $("[data-result]", form).replaceChildren(fragment(await answer.text()));
  }, 400);
  typed.addEventListener("input", check);
}

// --- records: search, tail, compare -----------------------------------------------------------------------------------

const TAIL_ROWS_MAX = 500;
const stream = $("#stream");
if (stream) {
  const rows = $("#records tbody");
  const output = $("output", stream);
  const stop = $("[data-stop]", stream);
  const isTail = stream.dataset.kind === "tail";
  let source;
  let state = {};

  const say = (text) => (output.textContent = text);
  const leave = () => {
    source?.close();
    source = undefined;
  };
  const ended = (text) => {
    leave();
    stop.hidden = !isTail;
    stop.textContent = "Resume";
    say(text);
    $("#nothing").hidden = rows.childElementCount > 0;
  };
  const start = () => {
    source = new EventSource(stream.dataset.events);
    stop.textContent = isTail ? "Pause" : "Cancel";
    source.addEventListener("rows", (event) => {
      const found = fragment(JSON.parse(event.data));
      if (isTail) {
        rows.prepend(...[...found.querySelectorAll("tr")].reverse());
        while (rows.childElementCount > TAIL_ROWS_MAX) rows.lastElementChild.remove();
      } else rows.append(found);
      complete();
    });
    source.addEventListener("progress", (event) => {
      state = JSON.parse(event.data);
      if (isTail) {
        const skipped = state.skipped ? `, ${numbers.format(state.skipped)} not shown` : "";
        say(`${numbers.format(state.seen)} arrived, ${numbers.format(state.matched)} match${skipped}`);
      } else {
        $("progress", stream).value = state.total ? state.scanned / state.total : 1;
        say(`${numbers.format(state.matched)} found in ${numbers.format(state.scanned)} of ${numbers.format(state.total)}`);
      }
    });
    source.addEventListener("end", () => ended(`${output.textContent}, finished`));
    source.addEventListener("problem", (event) => {
      ended(JSON.parse(event.data));
      output.className = "problem";
    });
    source.onerror = () => ended("The connection to the console was lost.");
  };
  stop.addEventListener("click", () => {
    if (source) ended(isTail ? `${output.textContent}, paused` : `${output.textContent}, cancelled`);
    else start();
  });
  addEventListener("pagehide", leave); // the server ends the search or the tail
  start();
}

const compare = $("#compare");
if (compare) {
  document.addEventListener("change", (event) => {
    if (event.target.name !== "pick") return;
    const picked = $$("input[name=pick]:checked");
    if (picked.length > 2) {
      event.target.checked = false;
      return;
    }
    compare.hidden = picked.length < 2;
    const [a, b] = picked.map((each) => encodeURIComponent(each.value));
    if (picked.length === 2) compare.href = `${compare.dataset.base}?a=${a}&b=${b}`;
  });
}

// --- editors: complete words, topics and columns ----------------------------------------------------------------------

for (const editor of $$("textarea[data-words]")) {
  const list = Object.assign(document.createElement("ul"), { className: "words", id: `${editor.name}-words`, hidden: true });
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Completions");
  editor.parentElement.classList.add("edited");
  editor.after(list);
  editor.setAttribute("aria-controls", list.id);
  editor.setAttribute("aria-autocomplete", "list");
  let words = [];
  let chosen = 0;
  const refresh = debounced(async () => {
    const answer = await fetch(`${editor.dataset.words}?${new URLSearchParams({ text: editor.value.slice(0, 4000) })}`);
    if (!answer.ok) return;
    const found = await answer.json();
    words = ["columns", "topics", "keywords"].flatMap((kind) => found[kind].map((word) => [word, kind.slice(0, -1)]));
  }, 400);
  const close = () => (list.hidden = true);
  const begun = () => editor.value.slice(0, editor.selectionStart).match(/[A-Za-z_][\w.-]*$/)?.[0] ?? "";
  const mark = () => $$("li", list).forEach((each, at) => each.setAttribute("aria-selected", String(at === chosen)));
  const open = (least) => {
    const part = begun();
    const matches = words.filter(([word]) => word.toLowerCase().startsWith(part.toLowerCase()) && word !== part).slice(0, 12);
    if (part.length < least || !matches.length) return close();
    list.replaceChildren(
      ...matches.map(([word, kind]) => {
        const row = document.createElement("li");
        row.setAttribute("role", "option");
        row.dataset.word = word;
        row.append(word, Object.assign(document.createElement("small"), { textContent: kind }));
        row.addEventListener("mousedown", (event) => {
          event.preventDefault();
          take(word);
        });
        return row;
      })
    );
    chosen = 0;
    mark();
    list.hidden = false;
  };
  const take = (word) => {
    const at = editor.selectionStart - begun().length;
    editor.setRangeText(word, at, editor.selectionStart, "end");
    close();
    editor.dispatchEvent(new Event("input", { bubbles: true }));
    close();
  };
  editor.addEventListener("input", () => {
    refresh();
    open(2);
  });
  editor.addEventListener("focus", refresh, { once: true });
  editor.addEventListener("blur", close);
  editor.addEventListener("keydown", (event) => {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      open(0);
    } else if (list.hidden) {
      return;
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      close();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const count = list.childElementCount;
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : count - 1)) % count;
      mark();
    } else if (event.key === "Tab" || event.key === "Enter") {
      event.preventDefault();
      take(list.children[chosen].dataset.word);
    }
  });
}

// --- charts -----------------------------------------------------------------------------------------------------------

const POINTS_MAX = 120;
const charts = $("#charts");
if (charts) {
  const series = new Map($$("[data-series]", charts).map((figure) => [figure.dataset.series, { figure, points: [] }]));
  const shown = (value, unit) => {
    if (unit === "B/s") return `${compact.format(value).replace("B", "G")}B/s`;
    if (unit === "$/h") return `$${value.toPrecision(2)}/h`;
    return `${compact.format(value)} ${unit === "records" ? "" : "/s"}`.trim();
  };
  const draw = ({ figure, points }) => {
    const top = Math.max(...points, 1e-9) * 1.1;
    const at = (value, index) => `${(300 * index) / Math.max(points.length - 1, 1)},${80 - (78 * value) / top}`;
    const line = points.map(at).join(" L");
    $(".line", figure).setAttribute("d", `M${line}`);
    $(".area", figure).setAttribute("d", `M0,80 L${line} L300,80 Z`);
    $("output", figure).textContent = shown(points.at(-1), figure.dataset.unit);
  };
  let source;
  const leave = () => {
    source?.close();
    source = undefined;
  };
  const watch = () => {
    leave();
    for (const each of series.values()) each.points = []; // the server tells the past again
    source = new EventSource(charts.dataset.events);
    source.addEventListener("rates", (event) => {
      const rates = JSON.parse(event.data);
      for (const [name, each] of series) {
        if (rates[name] === null || rates[name] === undefined) continue;
        each.points = [...each.points, rates[name]].slice(-POINTS_MAX);
        draw(each);
      }
      const topics = new Map(rates.topics);
      for (const output of $$("output[data-topic]")) {
        const rate = topics.get(output.dataset.topic);
        output.textContent = rate === undefined ? "–" : `${compact.format(rate)}/s`;
      }
    });
    source.addEventListener("problem", leave);
  };
  // Nobody watches a page that is left or hidden: the server looks for nobody, and a deployed one bills each look.
  addEventListener("pagehide", leave);
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : watch()));
  if (!document.hidden) watch();
}

// --- narrow windows: what is chosen is in sight -----------------------------------------------------------------------

for (const each of $$(".bar nav [aria-current], .tabs [aria-current]")) {
  const list = each.parentElement;
  list.scrollLeft = each.offsetLeft - list.offsetLeft - (list.clientWidth - each.clientWidth) / 2;
}

// --- what the server cannot know or a script does better: local times, narrow tables, copies, choices -----------------

const inZone = (zone) =>
  new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium", ...(zone && { timeZone: zone }) });
const [local, utc] = [inZone(), inZone("UTC")];

function showLocalTimes() {
  for (const time of $$("time[data-ms]:not([datetime])")) {
    const moment = new Date(Number(time.dataset.ms));
    if (Number.isNaN(moment.getTime())) continue;
    time.title = moment.toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" });
    time.dateTime = moment.toISOString();
    const [ours, theirs] = [local.format(moment), utc.format(moment)];
    if (ours === theirs) continue;
    const [day, clock] = ours.split(" ");
    const text = theirs.startsWith(day) ? clock : ours;
    time.append(" ", Object.assign(document.createElement("small"), { className: "local", textContent: `local ${text}` }));
  }
}

// A table of more than three columns becomes a list of cards in a narrow window, each value with the name of its column.
function labelCells() {
  for (const table of $$("table.rows:not(.records, .matrix, [data-labelled])")) {
    const heads = $$("thead th", table);
    const names = heads.map((head) => ($(".hide", head) ? "" : head.textContent.replace(/[↑↓]/g, "").trim()));
    if (names.length < 4) continue;
    for (const row of $$("tbody tr", table)) {
      for (const [index, cell] of [...row.children].entries()) if (names[index]) cell.dataset.label = names[index];
      ($(".name", row)?.closest("td") ?? row.firstElementChild).classList.add("title");
    }
    table.classList.add("cards");
    table.dataset.labelled = "";
  }
}

function complete() {
  showLocalTimes();
  labelCells();
  for (const control of $$("[data-copy], [data-copy-of], [data-all]")) control.hidden = false;
  countChosen();
}

async function copied(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = Object.assign(document.createElement("textarea"), { value: text, className: "hide" }); // http on a name
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-of]");
  if (!button) return;
  const source = button.dataset.copyOf;
  const text = source ? document.getElementById(source).textContent : button.dataset.copy;
  button.textContent = await copied(text).then(
    () => "Copied",
    () => "Not allowed"
  );
  setTimeout(() => (button.textContent = "Copy"), 2000);
});

function countChosen() {
  const form = $("[data-choice]");
  if (!form || !$("[data-chosen]", form)) return;
  const boxes = $$("input[name=topic]", form);
  const count = boxes.filter((box) => box.checked).length;
  const all = $("[data-all]", form);
  all.checked = count > 0 && count === boxes.length;
  all.indeterminate = count > 0 && count < boxes.length;
  const text = $("[data-count]", form);
  text.dataset.none ??= text.textContent;
  text.textContent = count ? `${count} ${count === 1 ? "topic is" : "topics are"} ticked.` : text.dataset.none;
  for (const button of $$("[data-chosen] button", form)) button.disabled = !count;
}

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-all]")) {
    for (const box of $$("input[name=topic]", event.target.form)) box.checked = event.target.checked;
  }
  if (event.target.closest("[data-choice]")) countChosen();
});
complete();

// --- saved searches: names for addresses of this page, kept in this browser -------------------------------------------

for (const section of $$("[data-saved]")) {
  const base = section.dataset.saved;
  const key = `odradek.saved:${base}`;
  const list = $("ul", section);
  const [label, form] = [$(".hint", section), $("form", section)];
  const read = () => {
    try {
      const saved = JSON.parse(localStorage.getItem(key) ?? "[]");
      const isSearch = (search) => typeof search?.name === "string" && typeof search?.query === "string";
      return Array.isArray(saved) ? saved.filter(isSearch) : [];
    } catch {
      return []; // no storage in this browser, or somebody else's value
    }
  };
  const write = (saved) => {
    localStorage.setItem(key, JSON.stringify(saved));
    show();
  };
  const show = () => {
    const saved = read();
    list.replaceChildren(
      ...saved.map(({ name, query }) => {
        const href = `${base}?${new URLSearchParams(query)}`;
        const link = Object.assign(document.createElement("a"), { href, textContent: name });
        if (`?${query}` === location.search) link.setAttribute("aria-current", "page");
        const button = { type: "button", className: "quiet", textContent: "×" };
        const forget = Object.assign(document.createElement("button"), button);
        forget.setAttribute("aria-label", `Forget ${name}`);
        forget.addEventListener("click", () => write(read().filter((search) => search.name !== name)));
        const row = document.createElement("li");
        row.append(link, forget);
        return row;
      })
    );
    label.hidden = !saved.length;
    form.hidden = location.search.length < 2;
    section.hidden = label.hidden && form.hidden;
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const name = form.elements.name.value.trim();
    if (!name) return;
    const others = read().filter((search) => search.name !== name);
    const saved = [...others, { name, query: location.search.slice(1) }];
    write(saved.sort((a, b) => (a.name < b.name ? -1 : 1)));
    form.reset();
  });
  addEventListener("storage", (event) => event.key === key && show());
  show();
}

// --- keys -------------------------------------------------------------------------------------------------------------

const keys = $("#keys");
const keysButton = $("[data-keys]");
if (keysButton) {
  keysButton.hidden = false;
  keysButton.addEventListener("click", () => keys.showModal());
}
let going = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || keys?.open) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (going) {
    going = false;
    const link = $(`.bar nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) link.click();
    return;
  }
  if (event.key === "g") {
    going = true;
    setTimeout(() => (going = false), 1500);
  } else if (event.key === "/") {
    event.preventDefault();
    $("main input[type=search]")?.focus();
  } else if (event.key === "?") keys?.showModal();
  else if (event.key === "n") $("main a[rel=next]")?.click();
  else if (event.key === "p") $("main a[rel=prev]")?.click();
  else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
});

function step(by) {
  const links = $$("main a[data-open]");
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  const next = links[Math.min(Math.max(at + by, 0), links.length - 1)];
  next.focus();
}
