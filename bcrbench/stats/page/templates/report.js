"use strict";
// Everything from a log reaches the page as text nodes: no markup is ever made from a string.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const PAGE = 200;         // items that the list shows at a time
  const LONGEST = 8000;     // characters of a text that are shown before someone asks for all that the page holds
  const DIFF = 4e6;         // cells of the table that a comparison of two texts may take
  const str = (place) => (place < 0 ? null : data.strings[place]);
  const flat = (value) => (value === null ? "" : typeof value === "string" ? value : value[0] + "\n" + value[2]);
  const zip = (fields, values) => Object.fromEntries(fields.map((name, k) => [name, values[k]]));

  function h(tag, facts, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(facts || {})) {
      if (name === "on") for (const [event, run] of Object.entries(value)) node.addEventListener(event, run);
      else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.flat(3).filter((child) => child !== null && child !== ""));
    return node;
  }
  function shape(tag, facts, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(facts)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  // Characters that move, hide or reorder text are named instead.
  const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
  function visible(text) {
    const parts = [];
    let start = 0;
    for (const found of text.matchAll(ODD)) {
      const code = found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
      parts.push(text.slice(start, found.index), h("span", { class: "ctl" }, "U+" + code));
      start = found.index + found[0].length;
    }
    parts.push(text.slice(start));
    return parts;
  }
  const said = (text) => h("bdi", {}, visible(text));

  // Words of two texts that the other lacks, by the longest common subsequence of what lies between equal ends.
  const words = (text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) || [];
  function compare(left, right) {
    const a = words(left), b = words(right);
    let head = 0, tail = 0;
    while (head < a.length && head < b.length && a[head] === b[head]) head++;
    while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
    const n = a.length - head - tail, m = b.length - head - tail;
    const marks = [new Uint8Array(a.length), new Uint8Array(b.length)];
    marks[0].fill(1, head, head + n);
    marks[1].fill(1, head, head + m);
    if (n && m && (n + 1) * (m + 1) <= DIFF) {
      const wide = m + 1, best = new Uint16Array((n + 1) * wide);
      for (let i = n - 1; i >= 0; i--)
        for (let j = m - 1; j >= 0; j--)
          best[i * wide + j] = a[head + i] === b[head + j] ? best[(i + 1) * wide + j + 1] + 1
            : Math.max(best[(i + 1) * wide + j], best[i * wide + j + 1]);
      for (let i = 0, j = 0; i < n && j < m;) {
        if (a[head + i] === b[head + j]) { marks[0][head + i++] = 0; marks[1][head + j++] = 0; }
        else if (best[(i + 1) * wide + j] >= best[i * wide + j + 1]) i++;
        else j++;
      }
    }
    return [{ words: a, marks: marks[0] }, { words: b, marks: marks[1] }];
  }
  function marked(side) {
    const parts = [];
    for (let k = 0; k < side.words.length;) {
      const flag = side.marks[k];
      let run = "";
      while (k < side.words.length && side.marks[k] === flag) run += side.words[k++];
      parts.push(flag ? h("mark", {}, visible(run)) : visible(run));
    }
    return parts;
  }
  // A pair of texts, what differs marked; a long one cut, its length told.
  function texts(one, two) {
    const sides = [one, two];
    const heads = sides.map((value) => (value === null ? null : flat(value).slice(0, LONGEST)));
    const both = heads.every((value) => value !== null);
    const found = both && heads[0] !== heads[1] ? compare(heads[0], heads[1]) : null;
    return sides.map((value, k) => {
      if (value === null) return null;
      const box = h("div", { class: "text", dir: "auto" }, found ? marked(found[k]) : visible(heads[k]));
      const left = typeof value === "string" ? 0 : value[1];
      const all = flat(value).length - (left ? 1 : 0) + left;
      if (all <= LONGEST) return box;
      const more = h("p", { class: "cut" }, `${all.toLocaleString("en")} characters, the first ${LONGEST.toLocaleString("en")} shown. `);
      const whole = left ? `the first ${value[0].length.toLocaleString("en")} and the last ${value[2].length.toLocaleString("en")}` : "all of them";
      more.append(h("button", { type: "button", on: { click: () => {
        box.replaceChildren(...(left ? [...visible(value[0]), h("p", { class: "cut" },
          `[${left.toLocaleString("en")} characters are not in this page]`), ...visible(value[2])] : visible(value)));
        more.remove();
      } } }, `Show ${whole}`));
      return h("div", {}, box, more);
    });
  }

  const MARK = { correct: ["\u2713", "good"], wrong: ["\u2717", "bad"], ungraded: ["?", "small"] };
  function outcome(text) {
    if (text === null) return h("span", { class: "small" }, "no outcome");
    const [sign, kind] = MARK[text] || ["!", "bad"];
    return h("span", { class: kind }, sign + " ", said(text));
  }
  const grade = (prediction, found) => [prediction === null ? "no answer found" : ["answer ", said(flat(prediction))], ", ", outcome(found)];

  function strip(call) {
    const total = call.prompt_tokens, spans = (call.spans || []).slice(1);
    const facts = zip(data.fields.rows, call.rows);
    const picture = shape("svg", { class: "strip", viewBox: `0 0 ${Math.max(total, 1)} 10`, preserveAspectRatio: "none", role: "img" },
      shape("rect", { class: "all", x: 0, y: 2, width: facts.cached, height: 6 }),
      ...spans.map(([start, end]) => shape("rect", { class: "chosen", x: start, y: 0, width: Math.max(end - start, total / 400), height: 10 })),
      shape("rect", { class: "last", x: facts.cached, y: 2, width: Math.max(total - facts.cached, 0), height: 6 }));
    picture.setAttribute("aria-label", spans.length ? `repaired rows ${spans.map((span) => span.join(" to ")).join(", ")} of ${total}` : `${total} tokens, none repaired`);
    const counts = Object.entries(facts).filter(([, value]) => value).map(([name, value]) => `${name.replace("_", " and ")} ${value}`);
    const told = call.spans === null ? "no rows repaired" : `repaired [start, end): ${spans.map((span) => span.join("-")).join(", ")}`
      + (call.spans[0] > spans.length ? `, and ${call.spans[0] - spans.length} more spans` : "");
    return [picture, h("div", { class: "ends" }, h("span", {}, "token 0"), h("span", {}, String(total))),
      h("p", { class: "small" }, "rows: ", counts.join(", "), "; ", told)];
  }
  function gates(call) {
    if (!call.gate.length) return null;
    const bits = (value) => (value === null ? "-" : value.toFixed(3));
    const rows = call.gate.map((values) => zip(data.fields.gate, values)).map((gate) => h("tr", {},
      h("th", { scope: "row" }, said(flat(str(gate.segment)))), h("td", {}, String(gate.rows)), h("td", {}, `${gate.available}/${gate.anchors}`),
      h("td", {}, `${bits(gate.entropy)} / ${bits(gate.limit)}`), h("td", {}, said(flat(str(gate.decision))), " (", said(flat(str(gate.why))), ")")));
    return h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, ["segment", "rows", "anchors", "entropy / limit, bits", "gate"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows)));
  }
  function stages(call) {
    const spent = data.fields.stages.map((name, k) => [name.replace("_", " "), call.ms[k]]).filter(([, value]) => value > 0);
    return h("p", { class: "small" }, `first token ${call.ttft_ms} ms, whole call ${call.e2e_ms} ms`,
      spent.length ? `; ${spent.map(([name, value]) => `${name} ${value}`).join(", ")}` : "",
      call.twin ? `; its dense twin: first token ${call.twin[0]} ms, whole call ${call.twin[1]} ms` : "", call.warm_up ? "; a warm-up, its times are left out" : "");
  }
  function side(name, call, other, text) {
    if (!call) return h("div", { class: "side" }, h("h4", {}, said(name)), h("p", { class: "small" }, "no such call"));
    const same = other && (other.prompt_hash === call.prompt_hash ? ", the same ids as the other" : ", not the other's ids");
    const drafts = call.draft_ids;
    return h("div", { class: "side" }, h("h4", {}, said(name)),
      h("p", {}, h("span", { class: "badge" }, said(flat(str(call.served)))), " ", said(flat(str(call.why)))),
      h("p", { class: "small" }, `prompt ${call.prompt_tokens} tokens`, same || "", `; answer ${call.tokens} tokens, ended by `, said(flat(str(call.finish)))),
      gates(call), strip(call),
      call.skipped >= 0 ? h("p", { class: "small" }, "repair skipped: ", said(flat(str(call.skipped)))) : null,
      drafts ? h("p", { class: "small" }, `draft ids ${drafts.slice(1).join(", ")}${drafts[0] >= drafts.length ? ", ..." : ""}`) : null,
      stages(call), text,
      call.feedback ? [h("p", { class: "small" }, "feedback by ", said(flat(str(call.feedback[0]))), ": ", said(flat(str(call.feedback[1])))), texts(str(call.feedback[2]), null)[0]] : null,
      call.gold >= 0 || call.prediction >= 0 || call.outcome >= 0
        ? h("p", { class: "small" }, call.gold >= 0 ? ["own gold ", said(flat(str(call.gold))), "; "] : null, grade(str(call.prediction), str(call.outcome))) : null);
  }

  const state = { cell: 0, one: 0, two: 0, filter: "all", search: "", item: null, shown: PAGE };
  const cell = () => data.cells[state.cell];
  const result = (arm, k) => str(cell().outcomes[arm][k]);
  const right = (arm, k) => result(arm, k) === "correct";
  const FILTERS = [
    ["pair", "A and B disagree", (k) => right(state.one, k) !== right(state.two, k)],
    ["b", "only A solves", (k) => right(state.one, k) && !right(state.two, k)],
    ["c", "only B solves", (k) => !right(state.one, k) && right(state.two, k)],
    ["any", "any two conditions disagree", (k) => new Set(cell().outcomes.map((_, arm) => right(arm, k))).size > 1],
    ["both", "both solve", (k) => right(state.one, k) && right(state.two, k)],
    ["neither", "neither solves", (k) => !right(state.one, k) && !right(state.two, k)],
    ["error", "A or B ended in an error", (k) => [state.one, state.two].some((arm) => (result(arm, k) || "").startsWith("error:"))],
    ["kept", "calls are in this page", (k) => k in cell().details],
    ["all", "all items", () => true],
  ];
  function holds(k, wanted) {
    if (!wanted || cell().ids[k].toLowerCase().includes(wanted)) return true;
    const detail = cell().details[k];
    return Boolean(detail) && detail.some((one) => one && [one[0], one[1], one[2], ...one[4].map((call) => call[7])]
      .some((place) => place >= 0 && flat(str(place)).toLowerCase().includes(wanted)));
  }
  function list() {
    const test = FILTERS.find(([name]) => name === state.filter)[2], wanted = state.search.trim().toLowerCase();
    const found = cell().ids.map((_, k) => k).filter((k) => test(k) && holds(k, wanted));
    const sign = (arm, k) => (MARK[result(arm, k)] || ["!"])[0];
    const rows = found.slice(0, state.shown).map((k) => h("li", {}, h("button", { type: "button", "data-item": k, "aria-current": k === state.item ? "true" : null,
      title: `A ${result(state.one, k)}, B ${result(state.two, k)}`, on: { click: () => show(k, true) } },
      said(cell().ids[k]), h("span", {}, `A ${sign(state.one, k)} B ${sign(state.two, k)}`))));
    if (found.length > state.shown) rows.push(h("li", {}, h("button", { type: "button", on: { click: () => { state.shown += PAGE; list(); } } },
      `${found.length - state.shown} more`)));
    at("list").replaceChildren(...rows);
    at("count").textContent = `${found.length} of ${cell().ids.length} items`;
    return found;
  }
  function show(k, jump) {
    state.item = k;
    for (const button of document.querySelectorAll("#list button[data-item]")) {
      if (Number(button.dataset.item) === k) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
    if (k === null) { at("item").replaceChildren(); return; }
    const arms = [state.one, state.two], names = arms.map((arm, j) => `${"AB"[j]}: ${cell().conditions[arm]}`);
    const detail = cell().details[k];
    const top = [h("h3", {}, "Item ", said(cell().ids[k]))];
    if (!detail) {
      top.push(h("p", { class: "warn" }, "Its calls were left out to keep this page small."), h("div", { class: "two" },
        arms.map((arm, j) => h("div", { class: "side" }, h("h4", {}, said(names[j])), outcome(result(arm, k))))));
      at("item").replaceChildren(...top);
    } else at("item").replaceChildren(...top, ...whole(k, detail, arms, names));
    if (jump) { at("item").focus({ preventScroll: true }); if (matchMedia("(max-width: 56rem)").matches) at("item").scrollIntoView(); }
  }
  function whole(k, detail, arms, names) {
    const items = arms.map((arm) => (detail[arm] ? zip(data.fields.item, detail[arm]) : null));
    const gold = items.find((item) => item !== null);
    const finals = texts(...items.map((item) => (item ? str(item.text) : null)));
    const key = (kind, label) => [h("span", { class: `key ${kind}` }), ` ${label} `];
    const parts = [h("p", { class: "small" }, "Strips are prompts by token position: ", key("all", "rows of the served cache,"), key("chosen", "repaired rows,"), key("last", "the last token.")),
      h("p", {}, "gold answer ", gold ? said(flat(str(gold.gold))) : "-"),
      h("div", { class: "two" }, items.map((item, j) => h("div", { class: "side" }, h("h4", {}, said(names[j])),
        item ? [h("p", {}, grade(str(item.prediction), result(arms[j], k))), finals[j],
          item.grades.map(([name, version, prediction, found]) => h("p", { class: "small" }, "graded by ", said(flat(str(name))), ` v${version}: `, grade(str(prediction), str(found)))),
          h("p", { class: "small" }, `${item.wall_s} s`)] : h("p", { class: "small" }, "not in this log"))))];
    const calls = items.map((item) => (item ? item.calls.map((values) => zip(data.fields.call, values)) : []));
    for (let n = 0; n < Math.max(calls[0].length, calls[1].length); n++) {
      const pair = [calls[0][n], calls[1][n]], some = pair[0] || pair[1];
      const outputs = texts(...pair.map((call) => (call ? str(call.text) : null)));
      parts.push(h("section", { class: "call" }, h("h3", {}, "Agent ", said(flat(str(some.agent))), ": ", said(flat(str(some.role)))),
        h("div", { class: "two" }, pair.map((call, j) => side(names[j], call, pair[1 - j], outputs[j])))));
    }
    return parts;
  }

  function fill(node, entries, value) {
    node.replaceChildren(...entries.map(([key, label]) => h("option", { value: key, selected: String(key) === String(value) }, visible(label).map((part) => (typeof part === "string" ? part : part.textContent)))));
    node.value = String(value);
  }
  function open(number) {
    state.cell = number;
    const names = cell().conditions.map((name, k) => [k, name + (cell().status[k] === "complete" ? "" : ` (${cell().status[k]})`)]);
    state.one = cell().reference === null ? 0 : cell().reference;
    state.two = names.length > 1 ? (state.one === 0 ? 1 : 0) : 0;
    fill(at("one"), names, state.one);
    fill(at("two"), names, state.two);
    state.filter = cell().ids.some((_, k) => FILTERS[0][2](k)) ? "pair" : "all";
    fill(at("filter"), FILTERS, state.filter);
    state.shown = PAGE;
    state.item = null;
    const found = list();
    show(found.length ? found[0] : null);
  }
  fill(at("cell"), data.cells.map((one, k) => [k, one.name]), 0);
  at("cell").parentElement.hidden = data.cells.length < 2;
  if (data.cells.length < 2) at("cell").parentElement.style.display = "none";
  at("controls").hidden = false;
  at("controls").addEventListener("submit", (event) => event.preventDefault());
  at("cell").addEventListener("change", (event) => open(Number(event.target.value)));
  for (const name of ["one", "two"]) at(name).addEventListener("change", (event) => { state[name] = Number(event.target.value); list(); show(state.item); });
  at("filter").addEventListener("change", (event) => { state.filter = event.target.value; state.shown = PAGE; list(); });
  let waiting = 0;
  at("search").addEventListener("input", (event) => { clearTimeout(waiting); waiting = setTimeout(() => { state.search = event.target.value; list(); }, 150); });
  open(0);
  document.documentElement.dataset.ready = "true";
})();
