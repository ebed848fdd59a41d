// Asks Prometheus what Grafana would, and makes data frames of the answers as its data source does.
import { FieldType, createDataFrame } from '@grafana/data';

const LEGEND_LABEL = /\{\{\s*(.+?)\s*\}\}/g;
const VARIABLE = /\$\{?(\w+)\}?/g;

/** Returns `text` with the variables replaced. Throws for one that nothing defines. */
export function withVariables(text, values) {
  return text.replace(VARIABLE, (_, name) => {
    if (!(name in values)) {
      throw new Error(`nothing defines $${name}: ${text}`);
    }
    return values[name];
  });
}

/** Returns the data frames of a target: one per series, or a single one with a column per label. */
export async function framesOf(target, view, maxDataPoints) {
  const range = view.to - view.from;
  const step = Math.max(view.scrapeSeconds, range / maxDataPoints);
  const rateInterval = Math.max(step + view.scrapeSeconds, 4 * view.scrapeSeconds, view.rateSeconds);
  const expression = withVariables(target.expr, {
    ...view.variables,
    __rate_interval: `${Math.ceil(rateInterval * 1000)}ms`,
    __range: `${Math.ceil(range)}s`,
  });
  const found = target.instant
    ? await ask(view.prometheus, 'query', { query: expression, time: view.to })
    : await ask(view.prometheus, 'query_range', { query: expression, start: view.from, end: view.to, step });
  const series = found.map((each) => ({ labels: each.metric, points: each.values ?? [each.value] }));
  if (target.format === 'table') {
    return series.length ? [table(target, series)] : [];
  }
  return series.map((each) => frame(target, each, step));
}

async function ask(prometheus, path, parameters) {
  const answer = await fetch(`${prometheus}/api/v1/${path}?${new URLSearchParams(parameters)}`);
  const body = await answer.json();
  if (body.status !== 'success') {
    throw new Error(`${body.error} (${parameters.query})`);
  }
  return body.data.result;
}

function frame(target, { labels, points }, step) {
  return createDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: points.map(milliseconds), config: { interval: step * 1000 } },
      {
        name: 'Value', type: FieldType.number, labels, values: points.map(number),
        config: { displayNameFromDS: legend(target, labels) },
      },
    ],
  });
}

function table(target, series) {
  const names = [...new Set(series.flatMap((each) => Object.keys(each.labels)))].sort();
  const last = series.map((each) => each.points.at(-1));
  return createDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: last.map(milliseconds) },
      ...names.map((name) => ({ name, type: FieldType.string, values: series.map((each) => each.labels[name] ?? '') })),
      { name: 'Value', type: FieldType.number, values: last.map(number) },
    ],
  });
}

function legend(target, labels) {
  if (target.legendFormat) {
    return target.legendFormat.replace(LEGEND_LABEL, (_, name) => labels[name] ?? '');
  }
  const { __name__: metric = '', ...rest } = labels;
  const pairs = Object.entries(rest).map(([name, value]) => `${name}="${value}"`);
  return pairs.length ? `${metric}{${pairs.join(', ')}}` : metric || 'Value';
}

function milliseconds(point) {
  return Math.round(point[0] * 1000);
}

/** Returns the value of a point; NaN is no value, as Grafana's data source has it. */
function number(point) {
  const value = Number(point[1].replace('Inf', 'Infinity'));
  return Number.isNaN(value) ? null : value;
}
